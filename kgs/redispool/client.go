package redispool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	dialTimeout  = 500 * time.Millisecond
	connsPerNode = 8 // limit of the connections to one node; a process makes few calls at the same time
)

// Address is a parsed URL of a Redis. All methods are safe for concurrent use.
type Address struct{ opts redis.UniversalOptions }

// ParseURL parses the URL of a Redis and reads the files that the URL names. ParseURL does not connect.
//
//	redis://user:password@host:6379/0               a single Redis; rediss:// for TLS
//	redis://user:password@host1,host2,host3         a Cluster, through any of its nodes
//	redis://host1,host2/0?master_name=main          a master, through its Sentinels
//
// The URL may have more parameters. cluster=true selects a Cluster when the URL has only one address. sentinel_username
// and sentinel_password are the credentials for the Sentinels; the credentials before the @ are for the Redis servers.
// The default port is 6379, and 26379 for Sentinels. With rediss://, tls_ca names a PEM file with certificates of
// authorities. The client then trusts these authorities instead of the authorities of the system. tls_cert and tls_key
// name PEM files with the certificate of the client and its key. The client reads tls_cert and tls_key again for each
// connection.
//
// The error is a [FileError] if a file cannot be used. Errors contain no part of the URL except the
// names of its files, because the URL may contain a password.
func ParseURL(rawURL string) (*Address, error) {
	opts, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	opts.MaxRetries = -1 // no retries; with the default of 3, the client would repeat a Take whose reply is slow
	opts.ContextTimeoutEnabled = true
	opts.DialTimeout = dialTimeout
	opts.DialerRetries = 1
	opts.ReadTimeout = callTimeout
	opts.WriteTimeout = callTimeout
	opts.PoolTimeout = callTimeout
	opts.PoolSize = connsPerNode
	return &Address{*opts}, nil
}

// Open returns a client that is not connected yet. The caller closes the client.
//
// A client for a single Redis or for Sentinel never repeats a command that may have run. A client
// for a Cluster may repeat such a command: it cannot distinguish a broken connection from a slot that
// has moved to another node. If a command gets no reply, a client for a Cluster also reads
// again which node is the master of each slot. A call ends when its context ends. Dialling
// takes at most dialTimeout, and each read and each write takes at most callTimeout.
func (a *Address) Open() redis.UniversalClient {
	opts := a.opts
	client := redis.NewUniversalClient(&opts)
	if cluster, ok := client.(*redis.ClusterClient); ok {
		cluster.AddHook(reload{cluster})
	}
	return client
}

// OpenClient returns a client for a URL; see [ParseURL] and [Address.Open].
func OpenClient(rawURL string) (redis.UniversalClient, error) {
	address, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return address.Open(), nil
}

// reload is a hook for a client of a Cluster. If a master does not reply, a replica may have replaced it.
// Therefore the hook makes the client read again which node is the master of each slot. Without the hook,
// the client would call the former master for up to a minute.
type reload struct{ cluster *redis.ClusterClient }

// DialHook implements redis.Hook.
func (reload) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook. It does not wait until the client has read the masters again.
func (h reload) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.after(ctx, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook. It does not wait until the client has read the masters again.
func (h reload) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		h.after(ctx, err)
		return err
	}
}

func (h reload) after(ctx context.Context, err error) {
	var reply redis.Error // an error that a server sent
	if err != nil && !errors.As(err, &reply) {
		h.cluster.ReloadState(ctx)
	}
}
