package testenv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// The server has many numbered databases. A test claims one of them, so that no other test uses it.
	// claimKey is the name of the key that marks a claim. usedKey is the name of the set of all
	// databases that tests have ever claimed. Both keys are in the registry, which is the database that
	// the URL of the server names.
	claimKey = "keypool-testenv:claim:%d"
	usedKey  = "keypool-testenv:used"
	// claimTTL is the time after which a claim expires. The claim of a killed test ends in this way. No
	// test runs that long.
	claimTTL = time.Hour
	// claimWait is how long a test waits while all databases are claimed.
	claimWait = time.Minute
)

// Redis returns a client for an empty logical database of this test. The database is flushed
// after the test. The client does not retry, and it is patient; see [Patient].
//
// The tests share the server. A test that changes settings, loads scripts, publishes messages or
// runs FLUSHALL would affect other tests, so it must call [StartRedis].
func Redis(t testing.TB) *redis.Client {
	t.Helper()
	return connect(t, RedisURL(t))
}

// RedisURL claims an empty logical database for the test and returns its URL. While the test runs, no other call of
// RedisURL or [Redis] claims this database.
func RedisURL(t testing.TB) string {
	t.Helper()
	base := redisServer.URL(t)
	registry := connect(t, base)
	ctx, cancel := setup(t)
	defer cancel()
	db, err := claim(ctx, registry)
	if err != nil {
		t.Fatalf("find a free Redis database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := setup(t)
		defer cancel()
		if err := errors.Join(flush(ctx, registry, db), release(ctx, registry, db)); err != nil {
			t.Errorf("release Redis database %d: %v", db, err)
		}
	})
	own, err := url.Parse(base)
	if err != nil {
		t.Fatal("TEST_REDIS_URL is not a URL") // does not print err, which contains the password
	}
	own.Path = "/" + strconv.Itoa(db)
	return own.String()
}

// connect returns a client that is closed after the test.
func connect(t testing.TB, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal("TEST_REDIS_URL is not a Redis URL") // does not print err, which may contain the password
	}
	opts.MaxRetries = -1
	opts.ContextTimeoutEnabled = true
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = setupTimeout, setupTimeout, setupTimeout, setupTimeout
	client := redis.NewClient(opts)
	Patient(client)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("close the Redis client: %v", err)
		}
	})
	return client
}

// Patient gives each command of client a minute, even if the context of the command has an earlier deadline. So a
// command does not time out on a slow machine. The options of the client must not have time limits of less
// than a minute.
func Patient(client redis.UniversalClient) { client.AddHook(patient{}) }

// patient is a hook for the clients of [Patient].
type patient struct{}

// DialHook implements redis.Hook.
func (patient) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (patient) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, cancel := withPatience(ctx)
		defer cancel()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (patient) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, cancel := withPatience(ctx)
		defer cancel()
		return next(ctx, cmds)
	}
}

// withPatience returns a context that ends after a minute or when ctx is cancelled, but not at the deadline of ctx.
func withPatience(ctx context.Context) (context.Context, context.CancelFunc) {
	if errors.Is(ctx.Err(), context.Canceled) { // AfterFunc would cancel in another goroutine, perhaps too late
		return ctx, func() {}
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), setupTimeout)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	return patient, func() { stop(); cancel() }
}

// claim claims a logical database that no other test of any process has claimed, and empties it. If
// all databases are claimed, it waits up to claimWait.
func claim(ctx context.Context, registry *redis.Client) (int, error) {
	count := databases(ctx, registry)
	for deadline := time.Now().Add(claimWait); ; {
		first := rand.IntN(count) //nolint:gosec // a database number is not a secret
		for i := range count {
			db := (first + i) % count
			if taken, err := tryClaim(ctx, registry, db); taken || err != nil {
				return db, err
			}
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("all %d databases are claimed by other tests or hold foreign data; "+
				"start the server with more (--databases 1024)", count)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func tryClaim(ctx context.Context, registry *redis.Client, db int) (bool, error) {
	if db == registry.Options().DB {
		return false, nil // this database contains the claims
	}
	taken, err := registry.SetNX(ctx, fmt.Sprintf(claimKey, db), "", claimTTL).Result()
	if !taken || err != nil {
		return false, err
	}
	foreign, err := holdsForeignData(ctx, registry, db)
	if foreign || err != nil {
		return false, errors.Join(err, release(ctx, registry, db))
	}
	if err := registry.SAdd(ctx, usedKey, db).Err(); err != nil {
		return false, err
	}
	return true, flush(ctx, registry, db)
}

// holdsForeignData reports whether a database has content but no test has ever claimed it. A
// developer may keep other data on the server that TEST_REDIS_URL names. The tests must not delete
// such data.
func holdsForeignData(ctx context.Context, registry *redis.Client, db int) (bool, error) {
	used, err := registry.SIsMember(ctx, usedKey, db).Result()
	if used || err != nil {
		return false, err
	}
	var size *redis.IntCmd
	err = in(ctx, registry, db, func(conn redis.Pipeliner) { size = conn.DBSize(ctx) })
	return err == nil && size.Val() > 0, err
}

func flush(ctx context.Context, registry *redis.Client, db int) error {
	return in(ctx, registry, db, func(conn redis.Pipeliner) { conn.FlushDB(ctx) })
}

func release(ctx context.Context, registry *redis.Client, db int) error {
	return registry.Del(ctx, fmt.Sprintf(claimKey, db)).Err()
}

// in runs commands in the logical database with the number db.
func in(ctx context.Context, registry *redis.Client, db int, commands func(redis.Pipeliner)) error {
	_, err := registry.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Select(ctx, db)
		commands(pipe)
		pipe.Select(ctx, registry.Options().DB) // switch back, because the client uses the connection again
		return nil
	})
	return err
}

// databases returns the number of logical databases of the server. If the server does not allow
// CONFIG, it returns 16, the default of Redis.
func databases(ctx context.Context, registry *redis.Client) int {
	config, err := registry.ConfigGet(ctx, "databases").Result()
	if err != nil {
		return 16
	}
	count, err := strconv.Atoi(config["databases"])
	if err != nil || count < 1 {
		return 16
	}
	return count
}
