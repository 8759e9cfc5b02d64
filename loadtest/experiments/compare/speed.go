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

	"github.com/redis/go-redis/v9"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	poolKeys = 200_000 // keys in a full pool, enough for some seconds at full speed

	steadyRate   = 500                    // creations per second
	steadyWarmUp = 300 * time.Millisecond // duration of the steady load before the measurement begins
	steadyRest   = time.Second            // pause after a load at full speed, so that the next status of the pool is newer than the load
)

// meter holds the databases that all key sources share, and reads how often they are called.
type meter struct {
	*sources.Stage
	t     *experiment.T
	each  time.Duration // duration of a load
	redis *redis.Client
}

// speed measures how many creations per second wrk achieves with each key source. It also measures the p99
// at a rate that every key source can sustain.
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
				r.Fail(one.Name, fmt.Errorf("measure the memory of Redis: %w", err))
			}
		}
	}
	for _, f := range r.found {
		f.best = f.rate.Over(best)
	}
	sources.Kill(all)
}

// load makes links on a server. It returns the number of links and the measured figure.
type load func(ctx context.Context, one *sources.Running, f *found) (made int64, figure float64, err error)

// subject returns a load on a key source, which measure.Alternate repeats in each round. If the server has a
// pool, the load begins when the pool is so full that no refill runs. The load fails if no
// creation was acknowledged, or if the table of links has fewer new rows than there were acknowledged creations.
// After a failure, all further loads leave the key source out.
func (r *record) subject(one *sources.Running, what, unit string, load load) measure.Subject {
	try := func(ctx context.Context) (figure float64, err error) {
		err = lab.Until(ctx, 20*time.Millisecond, 20*time.Second, func(context.Context) (bool, error) {
			status, err := one.Server.TryStatus()
			if keys := lab.Known(status.PoolKeys, poolKeys); err == nil && keys < poolKeys*9/10 {
				return false, fmt.Errorf("the pool has %d keys, want at least %d", keys, poolKeys*9/10)
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
			err = fmt.Errorf("%d creations were acknowledged and %d were stored", made, after-before)
		}
		return figure, err
	}
	return measure.Subject{Name: one.Name + ", " + what, Unit: unit, Optional: true, Measure: func(ctx context.Context) (float64, error) {
		f := r.of(one.Name)
		if f.broken {
			return 0, errors.New("an earlier load failed")
		}
		figure, err := try(ctx)
		if err != nil && ctx.Err() == nil {
			f.broken = true
			r.Fail(one.Name, fmt.Errorf("%s: %w", what, err))
		}
		return figure, err
	}}
}

// flatOut measures how many creations per second the server acknowledges. Each creation has a new URL. It
// records the calls to the supply. Then it pauses for the time steadyRest.
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

// steady measures the p99 of creations at the steady rate, in milliseconds. The time of a creation begins
// when the creation is due. steady reads every link back.
func (m *meter) steady(ctx context.Context, one *sources.Running, f *found) (made int64, ms float64, err error) {
	load, recorder := lab.Traffic(m.t, one.Server), loadtest.NewRecorder()
	load.Run(ctx, steadyRate, steadyWarmUp, loadtest.NewRecorder())
	load.Run(ctx, steadyRate, m.each, recorder)
	v, err := lab.TryCheck(m.t, one.Server, nil, load)
	if err == nil && v.Broken()+v.Unknown+v.Unsent > 0 {
		err = fmt.Errorf("some links are lost or wrong or have the code of another link, or some creations got no answer or were not sent: %+v", v)
	}
	measured := recorder.Figures()
	f.refuses(measured.Refused, measured.Sent)
	return v.Acknowledged, float64(measured.Latency.P99.Microseconds()) / 1000, err
}

// refuses records the percentage of the creations of a load that were refused. It keeps only the
// highest percentage of all loads.
func (f *found) refuses(refused, sent int64) {
	f.refused = measure.Series{max(f.refused.Median(), 100*float64(refused)/float64(max(1, sent)))}
}

// supplyStatements counts all statements except those of the link store, which name a table of links or set
// lock_timeout. It counts each BEGIN and each COMMIT, including those of transactions that write links.
const supplyStatements = `SELECT coalesce(sum(s.calls), 0)::float8
	FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
	WHERE d.datname = ANY($1) AND s.query !~ '\m((un)?ranked_links|lock_timeout)\M'`

func newMeter(t *experiment.T, each time.Duration) *meter {
	m := &meter{Stage: sources.NewStage(t), t: t, each: each}
	m.redis = lab.RedisClient(t, m.Redis.URL)
	lab.Execute(t, m.Postgres.URL, `ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`)
	m.Postgres.Restart()
	lab.Execute(t, m.Postgres.URL, `CREATE EXTENSION pg_stat_statements`)
	return m
}

// calls returns how many calls a key source has made to PostgreSQL, Redis and the key service. PostgreSQL counts statements.
// Redis counts its reads from sockets, and a pipeline or a script needs one read. The key service
// counts its requests. The result also includes the few calls per second of an idle server: for Redis, those of all
// servers, and otherwise those of this server. They are few compared with thousands of creations per second.
func (m *meter) calls(ctx context.Context, one *sources.Running) (n float64, err error) {
	var names []string
	for _, address := range append(one.At.Tickets[:], one.At.Links) {
		at, err := url.Parse(address)
		if err != nil {
			return 0, err
		}
		names = append(names, strings.TrimPrefix(at.Path, "/"))
	}
	n, err = lab.TryValue[float64](ctx, m.Postgres.URL, supplyStatements, names)
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

// memoryOf describes how much memory a key source uses in the Redis at address. No program may change the
// data in this Redis meanwhile.
func memoryOf(t *experiment.T, address string) (string, error) {
	client := lab.RedisClient(t, address)
	names, err := client.Keys(t.Context(), "*").Result() // the Redis contains only a few keys
	bytes := int64(0)
	for _, name := range names {
		size, failed := client.MemoryUsage(t.Context(), name, 0).Result() // 0 measures every element
		bytes, err = bytes+size, errors.Join(err, failed)
	}
	keys, failed := lab.ListedKeys(t.Context(), client)
	return fmt.Sprintf("%s bytes, with %s keys that wait to be taken", report.Number(float64(bytes)), report.Number(float64(keys))), errors.Join(err, failed)
}
