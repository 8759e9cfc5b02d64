package redispool

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	dialTimeout  = 500 * time.Millisecond
	connsPerNode = 8 // per node; a process has few calls to the pool under way at once
)

// OpenClient makes a client from a URL; it does not connect. The caller closes it.
//
//	redis://user:password@host:6379/0               a single Redis; rediss:// for TLS
//	redis://user:password@host1,host2,host3         a Cluster, found by any of its nodes
//	redis://host1,host2/0?master_name=main          a master, found by its Sentinels
//
// Further parameters: cluster=true for a Cluster by one address, sentinel_username and
// sentinel_password where the Sentinels ask for them (those before the @ are for the
// Redis servers). The ports default to 6379, of Sentinels to 26379.
//
// The client never repeats a command that may have run, but in a Cluster, where it has to
// follow a slot and takes a connection that broke for one that moved. It gives up as soon as
// its context says so, and anyway within about a second. Errors tell neither password nor
// parameters.
func OpenClient(rawURL string) (redis.UniversalClient, error) {
	opts, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	opts.MaxRetries = -1 // the default of 3 would repeat a take whose reply was slow
	opts.ContextTimeoutEnabled = true
	opts.DialTimeout = dialTimeout
	opts.DialerRetries = 1
	opts.ReadTimeout = callTimeout
	opts.WriteTimeout = callTimeout
	opts.PoolTimeout = callTimeout
	opts.PoolSize = connsPerNode
	return redis.NewUniversalClient(opts), nil
}

// CheckURL fails where OpenClient would.
func CheckURL(rawURL string) error {
	if _, err := parseURL(rawURL); err != nil {
		return fmt.Errorf("redis URL: %w", err)
	}
	return nil
}

// parseURL reads the addresses by hand, for a URL has only one host. It passes no
// error of net/url on: those quote what they could not parse.
func parseURL(raw string) (*redis.UniversalOptions, error) {
	scheme, rest, _ := strings.Cut(raw, "://")
	if scheme != "redis" && scheme != "rediss" {
		return nil, errors.New("it must start with redis:// or rediss://")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@') + 1
	u, err := url.Parse(scheme + "://" + rest[:at] + "host" + rest[end:])
	if err != nil {
		return nil, errors.New("it must be redis://[user:password@]host[:port][,...][/database], special characters percent-encoded")
	}
	opts := &redis.UniversalOptions{}
	if err := setParams(opts, u.Query()); err != nil {
		return nil, err
	}
	if opts.Addrs, err = parseAddrs(rest[at:end], opts.MasterName != ""); err != nil {
		return nil, err
	}
	opts.Username = u.User.Username()
	opts.Password, _ = u.User.Password()
	if scheme == "rediss" {
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if opts.DB, err = strconv.Atoi(db); err != nil || opts.DB < 0 {
			return nil, fmt.Errorf("the database %q is not a number", db)
		}
	}
	if opts.DB != 0 && (opts.IsClusterMode || opts.MasterName == "" && len(opts.Addrs) > 1) {
		return nil, errors.New("a Cluster has no database but 0")
	}
	return opts, nil
}

func setParams(opts *redis.UniversalOptions, params url.Values) error {
	for name := range params {
		value := params.Get(name)
		switch name {
		case "master_name":
			opts.MasterName = value
		case "sentinel_username":
			opts.SentinelUsername = value
		case "sentinel_password":
			opts.SentinelPassword = value
		case "cluster":
			cluster, err := strconv.ParseBool(value)
			if err != nil {
				return errors.New("the parameter cluster must be true or false")
			}
			opts.IsClusterMode = cluster
		default:
			return errors.New("a parameter must be one of master_name, sentinel_username, sentinel_password, cluster")
		}
	}
	if opts.IsClusterMode && opts.MasterName != "" {
		return errors.New("it is either a Cluster or has a master_name")
	}
	return nil
}

func parseAddrs(list string, sentinels bool) ([]string, error) {
	defaultPort := "6379"
	if sentinels {
		defaultPort = "26379"
	}
	addrs := strings.Split(list, ",")
	for i, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			host, port = strings.Trim(addr, "[]"), defaultPort
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" {
			return nil, fmt.Errorf("address %d of %d is not host:port", i+1, len(addrs))
		}
		addrs[i] = net.JoinHostPort(host, port)
	}
	return addrs, nil
}
