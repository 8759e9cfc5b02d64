package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/kgs/redispool"
	"keypool/kgs/refill"
)

// openRedis returns a Redis client. The shutdown of the program closes the client. openRedis does
// not connect, because Redis may be unreachable during the start.
func (c *Core) openRedis() (redis.UniversalClient, error) {
	redis.SetLogger(redisLog{c.Log}) // applies to the whole process; the default logger writes to standard error
	address, err := redispool.ParseURL(string(c.RedisURL))
	if err != nil {
		return nil, err
	}
	client := address.Open()
	c.redis = address
	c.life.OnStop("redis", func(ctx context.Context) error { return program.WaitFor(ctx, client.Close) })
	return client, nil
}

// openRedisPool opens the Redis pool. It returns a config.Error if Redis is not suitable for the pool;
// see checkRedis.
func (c *Core) openRedisPool(ctx context.Context) error {
	client, err := c.openRedis()
	if err != nil {
		return err
	}
	if c.pool, err = c.redisPool(ctx, client); err != nil {
		return err
	}
	if err := c.checkRedis(ctx, client); err != nil {
		return err
	}
	c.life.OnStop("redis holder", c.returnKeys(c.pool.Release))
	return nil
}

// checkRedis returns an error if Redis is not suitable for the pool, for example because Redis may evict keys.
// It waits for Redis for at most two seconds. If Redis has not answered after that, checkRedis returns nil. The
// dead man's switch checks the eviction policy again later.
func (c *Core) checkRedis(ctx context.Context, client redis.UniversalClient) error {
	status, err := c.pool.Status(ctx) // the status contains the eviction policy even if the pool is not open yet
	if err := refusal(err); err != nil {
		return err
	}
	if !status.Evicts() {
		return c.refuseRole(ctx, client)
	}
	return &config.Error{
		Name: "REDIS_URL", Got: "a Redis with maxmemory-policy " + status.Policy,
		Takes: "a Redis with maxmemory-policy noeviction, because an evicted key is lost",
	}
}

// refuseRole returns an error if Redis is a replica that accepts no writes. It also returns an error if the form of REDIS_URL is
// wrong for the kind of the server: a single Redis, a Sentinel or a node of a Cluster. It waits for Redis for at most a second. If
// Redis has not answered after that, refuseRole returns nil. It does not check the role of servers that a Cluster or a Sentinel
// names.
func (c *Core) refuseRole(ctx context.Context, client redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	single, ok := client.(*redis.Client)
	if !ok {
		return refuseNoCluster(client.ClusterSlots(ctx).Err()) // the Redis user that docs/configuration.md describes has the permission for this command
	}
	if strings.Contains(string(c.RedisURL), "master_name=") {
		return nil
	}
	info, err := single.Info(ctx).Result()
	if err != nil {
		if advice := adviceOnTLS(strings.HasPrefix(string(c.RedisURL), "rediss:"), err); advice != "" {
			c.Log.Warn("Redis does not answer at the start", slog.Any("error", err), slog.String("advice", advice))
		}
		return refusal(err) // the breaker reports that Redis is unreachable
	}
	switch {
	case strings.Contains(info, "redis_mode:sentinel"):
		return &config.Error{Name: "REDIS_URL", Got: "a Redis Sentinel", Takes: "redis://host1,host2/0?master_name=NAME for the addresses of Sentinels"}
	case strings.Contains(info, "redis_mode:cluster"):
		return &config.Error{Name: "REDIS_URL", Got: "a node of a Redis Cluster", Takes: "redis://host:port?cluster=true for a Cluster"}
	case strings.Contains(info, "slave_read_only:1"): // only a replica has this line
		// The error is not a config.Error, because the replica accepts writes after its
		// promotion; see nameReadOnly.
		return errors.New("REDIS_URL leads to a Redis that is a read-only replica: use the address of the Redis that this replica follows, or promote the replica")
	}
	return nil
}

// refuseNoCluster interprets err, the error of CLUSTER SLOTS. It returns an error if err shows that the servers are single
// servers or Sentinels. It also returns an error if Redis refuses access; see refusal.
func refuseNoCluster(err error) error {
	if redis.HasErrorPrefix(err, "This instance has cluster support disabled") || redis.HasErrorPrefix(err, "unknown command") {
		return &config.Error{
			Name: "REDIS_URL", Got: "servers that are not a Redis Cluster",
			Takes: "the URL of one Redis, or redis://host1,host2/0?master_name=NAME with the addresses of Sentinels",
		}
	}
	return refusal(err)
}

// refusal returns a config.Error if err shows that Redis refuses REDIS_URL. It returns nil for other errors,
// because Redis may be unreachable during the start.
func refusal(err error) error {
	var certificate *tls.CertificateVerificationError
	var remote *net.OpError
	refused := &config.Error{Name: "REDIS_URL"}
	switch {
	case errors.As(err, &certificate):
		refused.Got = "a Redis whose certificate cannot be verified: " + certificate.Err.Error()
		refused.Takes = "a Redis whose certificate is for the host in the URL, and is signed by an authority in the file of tls_ca or of the system"
	case errors.As(err, &remote) && remote.Op == "remote error": // a TLS alert that the server sent
		refused.Got = "a Redis that ended the TLS handshake: " + remote.Err.Error()
		refused.Takes = "tls_cert and tls_key with a certificate that this Redis accepts"
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"):
		refused.Got, refused.Takes = "a Redis that refuses the user or the password", "redis://user:password@host:port with a user of this Redis"
	case redis.HasErrorPrefix(err, "NOPERM"):
		refused.Got = "a Redis that refuses a command of the pool: " + err.Error()
		refused.Takes = "a user with the permissions in docs/configuration.md"
	case err != nil && strings.Contains(err.Error(), "DB index is out of range"):
		refused.Got, refused.Takes = "a database number that this Redis does not have", "redis://host:port/N with the number N of a database that this Redis has"
	default:
		return nil
	}
	return refused
}

// adviceOnTLS returns what to do if err, the error of a command, suggests that only one of the client and Redis uses TLS. It returns
// "" for any other error. encrypted says whether the client uses TLS.
func adviceOnTLS(encrypted bool, err error) string {
	switch {
	case !encrypted && errors.Is(err, io.EOF):
		return "if it expects TLS, set REDIS_URL to rediss://..."
	case encrypted && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(tls.RecordHeaderError))):
		return "if it does not use TLS, set REDIS_URL to redis://..."
	}
	return ""
}

// returnKeys returns a function that calls release during the shutdown. The function logs an error of
// release and does not return it. The ledger has a record of the keys that were not returned, and
// abandons these keys later.
func (c *Core) returnKeys(release func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := release(ctx); err != nil {
			c.Log.Warn("could not return unused keys; the ledger abandons them later", slog.Any("error", err))
		}
		return nil
	}
}

func (c *Core) poolConfig(holder string, list int) redispool.Config {
	return redispool.Config{
		Prefix: string(c.Prefix), Name: c.ledger.Name(), List: list, Holder: holder, Space: c.Space, Ledger: c.ledger,
		Database: c.ledger.Database(), Alarm: &c.poolAlarm, Metrics: c.metrics,
	}
}

// redisPool returns the Redis pool with as many lists as KGS_POOL_SHARDS, and with all further lists that ever had an epoch.
// Workers do not refill these further lists. Servers still take the remaining keys of these lists.
func (c *Core) redisPool(ctx context.Context, client redis.UniversalClient) (*redispool.Lists, error) {
	epochs, err := c.ledger.Epochs(ctx)
	if err != nil {
		return nil, err
	}
	c.lists = c.PoolShards
	for list := range epochs {
		c.lists = max(c.lists, list+1)
	}
	return redispool.NewLists(client, c.poolConfig(c.holder, 0), c.lists, c.Log), nil
}

// redisWorkers returns a worker for each list, with its own Redis connections and its own holder name. A worker that
// replaces a hung worker must share neither the connections nor the holder name of the hung worker.
func (c *Core) redisWorkers() refill.Runner {
	workers := make(refill.Workers, c.lists)
	for list := range workers {
		client, holder, log := c.redis.Open(), holderName(), c.Log
		if c.lists > 1 {
			log = log.With(slog.Int("list", list))
		}
		workers[list] = refill.NewWorker(refill.WorkerConfig{
			Filler: redispool.NewFiller(redispool.FillerConfig{
				Ledger: c.ledger, Pool: redispool.New(client, c.poolConfig(holder, list)), Space: c.Space, Holder: holder,
				Length: c.CodeLength, Size: &c.sizes[list], Close: client.Close, Logger: log, Metrics: c.metrics,
			}),
			Capacity: refill.Share(c.PoolCapacity, list, c.PoolShards), Logger: log, Metrics: c.metrics,
		})
	}
	return workers
}

func (c *Core) worker(filler refill.Filler) refill.Runner {
	return refill.NewWorker(refill.WorkerConfig{
		Filler: filler, Capacity: c.PoolCapacity, Logger: c.Log, Metrics: c.metrics,
	})
}

// redisLog logs the messages of the Redis client at debug level, because they concern single
// connections. The breaker reports that Redis is unreachable.
type redisLog struct{ log *slog.Logger }

// Printf implements the client's logger.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", slog.String("message", fmt.Sprintf(format, args...)))
}
