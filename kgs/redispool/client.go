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
	connsPerNode = 8 // a process makes few calls to the pool at the same time
)

// OpenClient returns a client for a URL. It does not connect. The caller closes the client.
//
//	redis://user:password@host:6379/0               a single Redis; rediss:// for TLS
//	redis://user:password@host1,host2,host3         a Cluster, through any of its nodes
//	redis://host1,host2/0?master_name=main          a master, through its Sentinels
//
// The URL may have more parameters. cluster=true selects a Cluster when the URL has only one
// address. sentinel_username and sentinel_password are the credentials for the Sentinels; the
// credentials before the @ are for the Redis servers. The default port is 6379, and 26379 for
// Sentinels.
//
// A client for a single Redis or for Sentinel never repeats a command that may have run. A client
// for a Cluster may repeat such a command. It must follow slots that move to another node, and it
// cannot distinguish a broken connection from such a move. A call ends when its context
// ends. Dialling takes at most dialTimeout, and each read and each write takes at most callTimeout.
// Errors contain no part of the URL.
func OpenClient(rawURL string) (redis.UniversalClient, error) {
	opts, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	opts.MaxRetries = -1 // the default of 3 would repeat a Take whose reply is slow
	opts.ContextTimeoutEnabled = true
	opts.DialTimeout = dialTimeout
	opts.DialerRetries = 1
	opts.ReadTimeout = callTimeout
	opts.WriteTimeout = callTimeout
	opts.PoolTimeout = callTimeout
	opts.PoolSize = connsPerNode
	return redis.NewUniversalClient(opts), nil
}

// CheckURL returns the error that OpenClient would return for rawURL.
func CheckURL(rawURL string) error {
	if _, err := parseURL(rawURL); err != nil {
		return fmt.Errorf("redis URL: %w", err)
	}
	return nil
}

// parseURL parses the addresses itself, because a net/url URL has only one host. It returns no
// error of net/url, because such an error quotes its input, which may contain the password.
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
			return nil, errors.New("the database must be a number, 0 or above; a slash in a password must be written %2F")
		}
	}
	if opts.DB != 0 && (opts.IsClusterMode || opts.MasterName == "" && len(opts.Addrs) > 1) {
		return nil, errors.New("a Cluster has only database 0")
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
		return errors.New("cluster and master_name exclude each other")
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
