package compare

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// supplyStatements counts all statements but those on links: BEGIN and COMMIT too.
const supplyStatements = `SELECT coalesce(sum(s.calls), 0)::float8
	FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
	WHERE d.datname = ANY($1) AND s.query !~ '\mlinks\M'`

// meter is a stage whose servers count how often they are called.
type meter struct {
	*sources.Stage
	redis *redis.Client // nil until a key source with Redis runs
	asked int           // how often redis has asked for its count
	t     *experiment.T
}

func newMeter(t *experiment.T) *meter {
	m := &meter{Stage: sources.NewStage(t), t: t}
	lab.Execute(t, m.Postgres.URL, `ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`)
	m.Postgres.Restart()
	lab.Execute(t, m.Postgres.URL, `CREATE EXTENSION pg_stat_statements`)
	return m
}

// calls is how often the supply of a key source has been called, by the counts of those that
// are called: PostgreSQL counts statements, Redis its reads from sockets, of which a pipeline or a
// script needs one, and the key service its requests. Redis counts the calls of all key sources.
func (m *meter) calls(ctx context.Context, one *sources.Running) (n float64, err error) {
	var names []string
	for _, url := range slices.Concat([]string{one.At.Links}, one.At.Tickets[:]) {
		if url == "" {
			continue
		}
		config, err := pgx.ParseConfig(url)
		if err != nil {
			return 0, err
		}
		names = append(names, config.Database)
	}
	err = lab.TryQuery(ctx, m.Postgres.URL, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, supplyStatements, names).Scan(&n)
	})
	if err == nil && one.Redis {
		var reads float64
		reads, err = m.reads(ctx, one.At.Redis)
		n += reads
	}
	if err == nil && one.Service {
		var requests float64
		requests, err = one.At.Service.TryCounter("kgs_service_requests_total")
		n += requests
	}
	return n, err
}

// reads is how often Redis has read from a socket, without these questions.
func (m *meter) reads(ctx context.Context, url string) (float64, error) {
	if m.redis == nil {
		m.redis = lab.RedisClient(m.t, url)
	}
	m.asked++
	info := m.redis.InfoMap(ctx, "stats")
	if err := info.Err(); err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(info.Item("Stats", "total_reads_processed"), 64)
	return n - float64(m.asked), err
}

// idle is how many calls per second each key source makes while there is nothing to do.
func (m *meter) idle(t *experiment.T, all []*sources.Running) map[string]float64 {
	count := func() map[string]float64 {
		calls := make(map[string]float64)
		for _, one := range all {
			n, err := m.calls(t.Context(), one)
			t.Must(err)
			calls[one.Name] = n
		}
		return calls
	}
	begun, before := time.Now(), count()
	lab.Pause(t, idleFor)
	rates, seconds := count(), time.Since(begun).Seconds()
	for name := range rates {
		rates[name] = (rates[name] - before[name]) / seconds
	}
	return rates
}

// memory is what a key source keeps in Redis.
type memory struct {
	listed int64 // bytes of lists
	keys   int64 // that wait in these; 0 where there is only a counter
	rest   int64 // bytes of everything else: of a pool, mostly the batches of servers
}

func memoryOf(ctx context.Context, client *redis.Client) (*memory, error) {
	m := &memory{}
	names, err := client.Keys(ctx, "*").Result() // a handful
	for _, name := range names {
		err = errors.Join(err, m.add(ctx, client, name))
	}
	return m, err
}

// add adds one key. The length and the memory of a list are of the same moment.
func (m *memory) add(ctx context.Context, client *redis.Client, name string) error {
	kind, err := client.Type(ctx, name).Result()
	if err != nil {
		return err
	}
	var bytes, length *redis.IntCmd
	_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		bytes = p.MemoryUsage(ctx, name, 0) // 0: look at every element
		if kind == "list" {
			length = p.LLen(ctx, name)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case length == nil:
		m.rest += bytes.Val()
	default:
		m.listed, m.keys = m.listed+bytes.Val(), m.keys+length.Val()
	}
	return nil
}
