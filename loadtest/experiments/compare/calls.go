package compare

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

const idleFor = 2 * time.Second // how long the calls of idle servers are counted

// supplyStatements counts all statements but those on links: BEGIN and COMMIT too.
const supplyStatements = `SELECT coalesce(sum(s.calls), 0)::float8
	FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
	WHERE d.datname = ANY($1) AND s.query !~ '\mlinks\M'`

// meter is a stage whose servers count how often they are called.
type meter struct {
	*sources.Stage
	redis *redis.Client
}

func newMeter(t *experiment.T) *meter {
	m := &meter{Stage: sources.NewStage(t)}
	m.redis = lab.RedisClient(t, m.Redis.URL)
	lab.Execute(t, m.Postgres.URL, `ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`)
	m.Postgres.Restart()
	lab.Execute(t, m.Postgres.URL, `CREATE EXTENSION pg_stat_statements`)
	return m
}

// calls is how often the supply of a key source has been called, by the counts of those that
// are called: PostgreSQL counts statements, Redis its reads from sockets, of which a pipeline or a
// script needs one, and the key service its requests. Redis counts the calls of all key sources,
// and each question for its count.
func (m *meter) calls(ctx context.Context, one *sources.Running) (n float64, err error) {
	var names []string
	for _, address := range append(one.At.Tickets[:], one.At.Links) {
		at, err := url.Parse(address)
		if err != nil {
			return 0, err
		}
		names = append(names, strings.TrimPrefix(at.Path, "/"))
	}
	err = lab.TryQuery(ctx, m.Postgres.URL, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, supplyStatements, names).Scan(&n)
	})
	if err == nil && one.Redis {
		info := m.redis.InfoMap(ctx, "stats")
		reads, failed := strconv.ParseFloat(info.Item("Stats", "total_reads_processed"), 64)
		n, err = n+reads, errors.Join(info.Err(), failed)
	}
	if err == nil && one.Service {
		var requests float64
		requests, err = one.At.Service.TryCounter("kgs_service_requests_total")
		n += requests
	}
	return n, err
}

// idle is how many calls per second each key source makes while there is nothing to do.
func (m *meter) idle(t *experiment.T, all []*sources.Running) []float64 {
	count := func() []float64 {
		counts := make([]float64, len(all))
		for i, one := range all {
			n, err := m.calls(t.Context(), one)
			t.Must(err)
			counts[i] = n
		}
		return counts
	}
	begun, before := time.Now(), count()
	lab.Pause(t, idleFor)
	rates, seconds := count(), time.Since(begun).Seconds()
	for i := range rates {
		rates[i] = (rates[i] - before[i]) / seconds
	}
	return rates
}

// memoryOf says what a key source keeps in the Redis at address while nothing changes there.
func memoryOf(t *experiment.T, address string) (string, error) {
	client := lab.RedisClient(t, address)
	names, err := client.Keys(t.Context(), "*").Result() // a handful
	bytes := int64(0)
	for _, name := range names {
		size, failed := client.MemoryUsage(t.Context(), name, 0).Result() // 0: look at every element
		bytes, err = bytes+size, errors.Join(err, failed)
	}
	keys, failed := lab.ListedKeys(t.Context(), client)
	return fmt.Sprintf("%s bytes, with %s keys that wait", report.Number(float64(bytes)), report.Number(float64(keys))), errors.Join(err, failed)
}
