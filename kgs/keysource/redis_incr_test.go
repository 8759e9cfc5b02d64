package keysource

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/redispool"
)

// failures is the number of failed calls in a row that open a breaker.
const failures = 3

// newTestIncr returns the generator of one process. Its timeout is long, so that no call times out
// on a slow machine.
func newTestIncr(client redis.UniversalClient, name string, length int) *RedisIncr {
	r := NewRedisIncr(client, "keypool", name, length, slog.New(slog.DiscardHandler))
	r.timeout = time.Minute
	return r
}

// connect returns a connected client with the settings of the program, but with long time limits.
func connect(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	client, err := redispool.OpenClient(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	opts := client.(*redis.Client).Options()
	opts.ReadTimeout, opts.WriteTimeout = time.Minute, time.Minute
	kgstest.Await(t, "the client is connected", func() bool { return client.Ping(t.Context()).Err() == nil })
	return client
}

// wantCode draws a key at an attempt and compares its code.
func wantCode(t *testing.T, r *RedisIncr, attempt int, want string) {
	t.Helper()
	if k, err := r.Next(t.Context(), "", attempt); k != (kgs.Key{Code: want, Source: kgs.SourceRedisIncr}) || err != nil {
		t.Errorf("Next = %+v, %v, want %s", k, err, want)
	}
}

func setCounter(t *testing.T, r *RedisIncr, n int64) {
	t.Helper()
	if err := r.client.Set(t.Context(), r.counter, n, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestRedisIncrFollowsGeneratorContract(t *testing.T) {
	t.Parallel()
	url := testenv.RedisURL(t)
	kgstest.TestGenerator(t, func(t *testing.T) kgs.Generator {
		return newTestIncr(connect(t, url), "test", 6)
	})
}

func TestRedisIncrCountsInBase62(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t)
	one := newTestIncr(client, "test", 6)
	other := newTestIncr(client, "other", 6)
	wantCode(t, one, 0, "000001")
	wantCode(t, one, 0, "000002")
	wantCode(t, other, 0, "000001") // a counter with another name begins at 1
	wantCode(t, one, 1, "000004")
	wantCode(t, one, 3, "00000C")
	setCounter(t, one, 999_999)
	wantCode(t, one, 0, "004C92")
	one = newTestIncr(client, "test", 6) // has no high-water mark
	setCounter(t, one, 0)
	wantCode(t, one, 9_999, "004OmW") // the step is limited to 2^20
}

func TestRedisIncrUsesLongerCodesWhenShortCodesAreUsedUp(t *testing.T) {
	t.Parallel()
	r := newTestIncr(testenv.Redis(t), "test", 3)
	setCounter(t, r, codespace.Size(3)-2)
	wantCode(t, r, 0, "zzz")
	wantCode(t, r, 0, "1000")
	setCounter(t, r, codespace.Size(codespace.MaxLength)-2)
	wantCode(t, r, 0, "zzzzzzzzzz")
	for range 2 * failures {
		if _, err := r.Next(t.Context(), "", 0); !errors.Is(err, kgs.ErrNoKeys) || !errors.Is(err, kgs.ErrExhausted) {
			t.Errorf("Next after the last number: %v, want ErrNoKeys and ErrExhausted", err)
		}
	}
	if got := r.State(); got != gobreaker.StateClosed {
		t.Errorf("the breaker is %v although Redis answers", got)
	}
}

// TestRedisIncrFindsFreeNumberAfterCounterIsLost deletes the counter after 100,000 links. The search must find a number
// without a link within 17 attempts.
func TestRedisIncrFindsFreeNumberAfterCounterIsLost(t *testing.T) {
	t.Parallel()
	const links = 100_000
	client := testenv.Redis(t)
	r := newTestIncr(client, "test", 6)
	setCounter(t, r, links)
	if err := client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for attempt := 0; ; attempt++ {
		k, err := r.Next(t.Context(), "", attempt)
		if err != nil {
			t.Fatal(err)
		}
		_, n, err := codespace.Plain().Number(k.Code)
		if err != nil {
			t.Fatal(err)
		}
		if n > links {
			if attempt != 16 || n != 1<<17-1 { // the sum of the steps 1, 2, 4, ...
				t.Errorf("attempt %d found the number %d, want attempt 16 and the number %d", attempt, n, 1<<17-1)
			}
			return
		}
	}
}

// commands returns how many commands the Redis server has run. Each call of commands adds one command, INFO.
func commands(t *testing.T, client redis.UniversalClient) int {
	t.Helper()
	found := regexp.MustCompile(`total_commands_processed:(\d+)`).FindStringSubmatch(client.Info(t.Context(), "stats").Val())
	if found == nil {
		t.Fatal("Redis does not report how many commands it has run")
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

func TestRedisIncrNeedsOneRoundTripForEachKey(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).URL)
	r := newTestIncr(client, "test", 6)
	wantCode(t, r, 0, "000001")
	before := commands(t, client)
	for range 100 {
		if _, err := r.Next(t.Context(), "", 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := commands(t, client) - before - 1; n != 100 {
		t.Errorf("100 keys took %d commands, want 100", n)
	}
}

func TestRedisIncrNeverIssuesNumberWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	proxy := kgstest.NewCuttingProxy(t, testenv.StartRedis(t).Addr)
	r := newTestIncr(connect(t, "redis://"+proxy.Listener.Addr().String()), "test", 6)
	wantCode(t, r, 0, "000001")
	proxy.Cut.Store(true)
	if k, err := r.Next(t.Context(), "", 0); !errors.Is(err, kgs.ErrNoKeys) {
		t.Fatalf("Next = %+v, %v, want ErrNoKeys because the reply was lost", k, err)
	}
	wantCode(t, r, 0, "000003")
}

func TestRedisIncrFailsFastWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct{ begin, end func(*testenv.Server) }{
		"killed": {(*testenv.Server).Kill, (*testenv.Server).Restart},
		"frozen": {(*testenv.Server).Pause, (*testenv.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			r := newTestIncr(connect(t, server.URL), "test", 6)
			wantCode(t, r, 0, "000001")
			r.timeout = incrTimeout
			outage.begin(server)
			// Without the time limit of Next, the calls would wait for the timeouts of the client, beyond this deadline.
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			for range failures {
				if _, err := r.Next(ctx, "", 0); !errors.Is(err, kgs.ErrNoKeys) || errors.Is(err, gobreaker.ErrOpenState) || ctx.Err() != nil {
					t.Fatalf("Next: error %v, error of the context %v; want ErrNoKeys before the context ends", err, ctx.Err())
				}
			}
			// If this process pauses for a second, the breaker is half-open and lets one more call through.
			kgstest.Await(t, "Next fails with ErrNoKeys and ErrOpenState", func() bool {
				_, err := r.Next(t.Context(), "", 0)
				return errors.Is(err, kgs.ErrNoKeys) && errors.Is(err, gobreaker.ErrOpenState)
			})
			outage.end(server)
			var k kgs.Key
			kgstest.Await(t, "a key of the Redis that recovered", func() bool {
				var err error
				k, err = r.Next(t.Context(), "", 0)
				return err == nil
			})
			if k.Code <= "000001" || r.State() != gobreaker.StateClosed {
				t.Errorf("after the outage, the code is %s and the breaker is %v, want a higher code than 000001 and a closed breaker", k.Code, r.State())
			}
		})
	}
}
