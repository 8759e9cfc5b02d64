package redispool

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// parseURL parses the URL of a Redis; see [ParseURL]. A net/url URL has only one host, so parseURL
// splits the addresses itself. An error of net/url quotes its input, which may contain the
// password, so parseURL returns its own errors.
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
	files := tlsFiles{}
	if err := setParams(opts, files, u.Query()); err != nil {
		return nil, err
	}
	if opts.Addrs, err = parseAddrs(rest[at:end], opts.MasterName != ""); err != nil {
		return nil, err
	}
	opts.Username = u.User.Username()
	opts.Password, _ = u.User.Password()
	if db := strings.Trim(u.Path, "/"); db != "" {
		if opts.DB, err = strconv.Atoi(db); err != nil || opts.DB < 0 {
			return nil, errors.New("the database must be a number, 0 or above; a slash in a password must be written %2F")
		}
	}
	if opts.DB != 0 && (opts.IsClusterMode || opts.MasterName == "" && len(opts.Addrs) > 1) {
		return nil, errors.New("a Cluster has only database 0")
	}
	opts.TLSConfig, err = files.config(scheme == "rediss")
	return opts, err
}

func setParams(opts *redis.UniversalOptions, files tlsFiles, params url.Values) error {
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
		case tlsCA, tlsCert, tlsKey:
			files[name] = value
		default:
			return errors.New("a parameter must be one of master_name, sentinel_username, sentinel_password, cluster, tls_ca, tls_cert, tls_key")
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
