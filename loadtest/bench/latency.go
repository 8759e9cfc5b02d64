package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
	"keypool/loadtest/wrk"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// steadyRate is in creations per second.
	steadyRate = 1000
	// steadyShare is how much longer than a load at full speed a steady one is measured: its
	// p99 is that of few creations.
	steadyShare = 2
	// warmUp is how long a load runs before it is measured.
	warmUp = time.Second
	// connectPatience bounds the opening of all connections, and the table.
	connectPatience = 30 * time.Second

	aloneTable  = `CREATE TABLE alone (code text COLLATE "C" PRIMARY KEY, url text NOT NULL, created_at timestamptz NOT NULL)`
	aloneInsert = `INSERT INTO alone (code, url, created_at) VALUES ($1, $2, $3)`
)

// latency measures the p99 of creations at a steady rate, beside that of an INSERT of one
// row into the same PostgreSQL at the same rate, both from when they were due.
func latency(ctx context.Context, r *run) ([]Bar, error) {
	return r.onBed(func(bed *testbed.Bed) (_ []Bar, err error) {
		database, err := bed.Postgres(ctx)
		if err != nil {
			return nil, err
		}
		redis, err := bed.Redis(ctx)
		if err != nil {
			return nil, err
		}
		server, err := bed.Server(ctx, "DATABASE_URL="+database.URL, "REDIS_URL="+redis.URL)
		if err != nil {
			return nil, err
		}
		pool, err := openAlone(ctx, database.URL)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		schedule := loadtest.Schedule{Rate: steadyRate, Duration: steadyShare * r.Each}
		figures, err := r.alternate(ctx,
			rounds.Subject{Name: "INSERT alone", Unit: "ms", Measure: func(ctx context.Context) (float64, error) {
				return insertsAlone(ctx, schedule, pool)
			}},
			rounds.Subject{Name: "creation", Unit: "ms", Measure: func(ctx context.Context) (float64, error) {
				return steadyCreations(ctx, schedule, server.Public)
			}},
		)
		what := fmt.Sprintf("creation p99 at %d/s, PostgreSQL and Redis", steadyRate)
		return []Bar{
			{What: what, Unit: "ms", Measured: figures[1], Aim: AtMost(10),
				Note: "from when a request was due, and after a second of the same load; every link was read back"},
			{What: what, Unit: "ms", Measured: figures[1], Aim: AtMost(1.5), Versus: "INSERT of a row alone", Baseline: figures[0]},
		}, err
	})
}

// openAlone makes the table, and connects as often as there are clients elsewhere.
func openAlone(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = wrk.Connections, wrk.Connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	if _, err = pool.Exec(ctx, aloneTable); err == nil {
		err = testbed.Until(ctx, fillLook, connectPatience, func(context.Context) (bool, error) {
			if open := pool.Stat().IdleConns(); open != wrk.Connections {
				return false, fmt.Errorf("%d of %d connections are open", open, wrk.Connections)
			}
			return true, nil
		})
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// insertsAlone gives the p99 in milliseconds.
func insertsAlone(ctx context.Context, schedule loadtest.Schedule, pool *pgxpool.Pool) (float64, error) {
	var failure atomic.Pointer[error]
	// Unlike what Pace gives, ctx ends the statements too: they are not to be judged then.
	insert := func(context.Context) loadtest.State {
		ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
		defer cancel()
		if _, err := pool.Exec(ctx, aloneInsert, rand.Text()[:10], target, time.Now()); err != nil {
			failure.Store(&err)
			return loadtest.Refused
		}
		return loadtest.Acknowledged
	}
	warm := loadtest.Schedule{Rate: schedule.Rate, Duration: warmUp}
	loadtest.Pace(ctx, warm, 0, loadtest.NewRecorder(), insert)
	recorder := loadtest.NewRecorder()
	loadtest.Pace(ctx, schedule, 0, recorder, insert)
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	f := recorder.Figures()
	if f.Failed() > 0 || f.Acknowledged == 0 {
		return 0, fmt.Errorf("the load got what it should not: %+v", f)
	}
	return float64(f.Latency.P99.Microseconds()) / 1000, nil
}

// steadyCreations gives the p99 in milliseconds, when every link can be read back.
func steadyCreations(ctx context.Context, schedule loadtest.Schedule, server string) (ms float64, err error) {
	verdict, err := loadtest.Steady(ctx, server, warmUp, schedule)
	if err == nil && (!verdict.Right() || verdict.Acknowledged == 0) {
		err = fmt.Errorf("the load got what it should not: %+v", verdict)
	}
	return float64(verdict.Latency.P99.Microseconds()) / 1000, err
}
