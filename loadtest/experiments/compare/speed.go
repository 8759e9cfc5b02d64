package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

const (
	poolKeys = 200_000 // enough for some seconds at full speed

	steadyRate   = 500                    // creations per second
	steadyWarmUp = 300 * time.Millisecond // of the steady load before it is measured
	steadyRest   = time.Second            // between the loads: a status of the pool is as old at most
)

// meter is a stage whose servers count how often they are called.
type meter struct {
	*sources.Stage
	t     *experiment.T
	each  time.Duration // of a load
	redis *redis.Client
}

// speed times creations: as many as the connections of wrk allow, and the p99 at a rate that every
// key source can keep.
func (r *record) speed(t *experiment.T, m *meter) {
	t.Phase(0.02, "starting every key source")
	all := launch(m.Stage, func(*found) bool { return true }, r.found)
	var subjects []measure.Subject
	for _, one := range all {
		subjects = append(subjects, r.subject(one, "creations", measure.PerSecond, m.flatOut), r.subject(one, "p99", "ms", m.steady))
		subjects[len(subjects)-1].Follows = true
	}
	lines := 0.0
	figures, err := measure.Alternate(t.Context(), r.rounds, func(line string) {
		t.Phase(0.07+0.5*lines/float64(r.rounds*len(subjects)), "%s", line)
		lines++
	}, subjects...)
	t.Must(err)
	best := make(measure.Series, r.rounds)
	for i, one := range all {
		f := r.found[i]
		if f.rate, f.p99 = figures[2*i], figures[2*i+1]; f.rate == nil {
			f.calls = nil
		}
		for round, rate := range f.rate {
			best[round] = max(best[round], rate)
		}
		if one.Redis {
			if f.memory, err = memoryOf(t, one.At.Redis); err != nil {
				r.Fail(one.Name, fmt.Errorf("memory of Redis: %w", err))
			}
		}
	}
	for _, f := range r.found {
		f.best = f.rate.Over(best)
	}
	sources.Kill(all)
}

// load makes links on a server and returns how many it made and its figure.
type load func(ctx context.Context, one *sources.Running, f *found) (made int64, figure float64, err error)

// subject is a load on a key source in a round. It begins when the pool of the server, if it has one, is so full that no refill runs. It
// fails when the table of links gets fewer rows than creations are acknowledged.
func (r *record) subject(one *sources.Running, what, unit string, load load) measure.Subject {
	try := func(ctx context.Context) (figure float64, err error) {
		err = lab.Until(ctx, 20*time.Millisecond, 20*time.Second, func(context.Context) (bool, error) {
			status, err := one.Server.TryStatus()
			if keys := lab.Known(status.PoolKeys, poolKeys); err == nil && keys < poolKeys*9/10 {
				return false, fmt.Errorf("its pool has %d keys", keys)
			}
			return true, err
		})
		if err != nil {
			return 0, err
		}
		before, err := lab.CountLinks(ctx, one.At.Links)
		if err != nil {
			return 0, err
		}
		made, figure, err := load(ctx, one, r.of(one.Name))
		if err != nil {
			return 0, err
		}
		after, err := lab.CountLinks(ctx, one.At.Links)
		if err == nil && (made == 0 || after-before < made) {
			err = fmt.Errorf("%d creations are acknowledged and %d are stored", made, after-before)
		}
		return figure, err
	}
	return measure.Subject{Name: one.Name + ", " + what, Unit: unit, Optional: true, Measure: func(ctx context.Context) (float64, error) {
		figure, err := try(ctx)
		if err != nil && ctx.Err() == nil {
			r.Fail(one.Name, fmt.Errorf("%s: %w", what, err))
		}
		return figure, err
	}}
}

// flatOut is how many creations per second wrk gets, each of another URL. It records the calls
// of the supply and lets the server recover.
func (m *meter) flatOut(ctx context.Context, one *sources.Running, f *found) (made int64, perSecond float64, err error) {
	before, err := m.calls(ctx, one)
	if err != nil {
		return 0, 0, err
	}
	tally, err := measure.Wrk{
		URL: one.Server.Public + "/shorten", Script: "posts", Args: []string{"https://loadtest.example/" + rand.Text() + "/"}, Duration: m.each, Refusals: true,
	}.Run(ctx)
	if err != nil {
		return 0, 0, err
	}
	after, err := m.calls(ctx, one)
	lab.Pause(m.t, steadyRest)
	made = tally.Requests - tally.Status
	f.calls = append(f.calls, (after-before)/float64(made))
	f.refuses(tally.Status, tally.Requests)
	return made, float64(made) / float64(tally.Requests) * tally.PerSecond(), err
}

// steady is the p99 in milliseconds at the steady rate, from when each creation was due. Every
// link is read back.
func (m *meter) steady(ctx context.Context, one *sources.Running, f *found) (made int64, ms float64, err error) {
	load, recorder := lab.Traffic(m.t, one.Server), loadtest.NewRecorder()
	err = errors.Join(load.Run(ctx, steadyRate, steadyWarmUp, loadtest.NewRecorder()), load.Run(ctx, steadyRate, m.each, recorder))
	if err != nil {
		return 0, 0, err
	}
	v, err := lab.TryCheck(m.t, one.Server, nil, load)
	if err == nil && v.Broken()+v.Unknown+v.Unsent > 0 {
		err = fmt.Errorf("links are missing: %+v", v)
	}
	measured := recorder.Figures()
	f.refuses(measured.Refused, measured.Sent)
	return v.Acknowledged, float64(measured.Latency.P99.Microseconds()) / 1000, err
}

// refuses records how many creations of a load were refused. The worst load counts.
func (f *found) refuses(refused, sent int64) {
	f.refused = measure.Series{max(f.refused.Median(), 100*float64(refused)/float64(max(1, sent)))}
}

// supplyStatements counts all statements but those on links: BEGIN and COMMIT too.
const supplyStatements = `SELECT coalesce(sum(s.calls), 0)::float8
	FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
	WHERE d.datname = ANY($1) AND s.query !~ '\mlinks\M'`

func newMeter(t *experiment.T, each time.Duration) *meter {
	m := &meter{Stage: sources.NewStage(t), t: t, each: each}
	m.redis = lab.RedisClient(t, m.Redis.URL)
	lab.Execute(t, m.Postgres.URL, `ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`)
	m.Postgres.Restart()
	lab.Execute(t, m.Postgres.URL, `CREATE EXTENSION pg_stat_statements`)
	return m
}

// calls is how often the supply of a key source has been called, by the counts of those that
// are called: PostgreSQL counts statements, Redis its reads from sockets, of which a pipeline or a
// script needs one, and the key service its requests. What servers call while idle counts too: some
// calls per second, of Redis also those of other key sources, beside thousands of creations.
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
