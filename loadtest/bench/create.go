package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"keypool/internal/sqlite"
	"keypool/loadtest"
	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
	"keypool/loadtest/wrk"
)

// noRival is why no shortener of others is a yardstick.
const noRival = "no shortener of others is measured: Debian has none that runs by itself, and golink could not be had to run beside this one"

// create measures durable creations. The same URL is sent over and over, which makes a new
// link each time; that there is a row for each answer is what the database says.
func create(ctx context.Context, r *run) ([]Bar, error) {
	return r.onBed(func(bed *testbed.Bed) ([]Bar, error) {
		bare, err := r.startBare(ctx, bed)
		if err != nil {
			return nil, err
		}
		embedded, err := r.embeddedCreations(ctx, bed)
		if err != nil {
			return nil, err
		}
		postgres, err := r.postgresCreations(ctx, bed)
		if err != nil {
			return nil, err
		}
		echo := load{Load: wrk.Load{URL: creation(bare).URL, Script: "post", Args: []string{creation(bare).Body}}}
		figures, err := r.alternate(ctx, r.wrk("bare echo", echo), embedded, postgres)
		bars := []Bar{
			{What: "durable creations, SQLite", Measured: figures[1], Aim: AtLeast(0.7), Note: noRival},
			{What: "durable creations, PostgreSQL and Redis", Measured: figures[2], Aim: AtLeast(0.7)},
		}
		return beside(bars, rounds.PerSecond, "bare echo", figures[0]), err
	})
}

// beside gives all bars the same unit and the same baseline.
func beside(bars []Bar, unit, versus string, baseline rounds.Series) []Bar {
	for i := range bars {
		bars[i].Unit, bars[i].Versus, bars[i].Baseline = unit, versus, baseline
	}
	return bars
}

func (r *run) embeddedCreations(ctx context.Context, bed *testbed.Bed) (rounds.Subject, error) {
	path := filepath.Join(r.dir, "create.db")
	server, err := bed.Server(ctx, "DATABASE_URL=sqlite:"+path)
	if err != nil {
		return rounds.Subject{}, err
	}
	return r.creations(ctx, "SQLite", server, func(ctx context.Context) (rows int64, err error) {
		db, err := sqlite.Open(ctx, path)
		if err != nil {
			return 0, err
		}
		err = db.Read.QueryRowContext(ctx, `SELECT count(*) FROM links`).Scan(&rows)
		return rows, errors.Join(err, db.Close())
	})
}

func (r *run) postgresCreations(ctx context.Context, bed *testbed.Bed) (rounds.Subject, error) {
	database, err := bed.Postgres(ctx)
	if err != nil {
		return rounds.Subject{}, err
	}
	redis, err := bed.Redis(ctx)
	if err != nil {
		return rounds.Subject{}, err
	}
	server, err := bed.Server(ctx, "DATABASE_URL="+database.URL, "REDIS_URL="+redis.URL)
	if err != nil {
		return rounds.Subject{}, err
	}
	return r.creations(ctx, "PostgreSQL", server, func(ctx context.Context) (int64, error) {
		return testbed.CountLinks(ctx, database.URL)
	})
}

// creations is the server under creations. Each must have left a row.
func (r *run) creations(ctx context.Context, name string, server *testbed.Program, count func(context.Context) (int64, error)) (rounds.Subject, error) {
	once := creation(server.Public)
	if err := once.Try(ctx); err != nil {
		return rounds.Subject{}, err
	}
	before, err := inTime(ctx, count)
	return r.wrk(name, load{
		Load: wrk.Load{URL: once.URL, Script: "post", Args: []string{once.Body}},
		check: func(ctx context.Context, answers int64) error {
			after, err := inTime(ctx, count)
			if err == nil && after-before < answers {
				err = fmt.Errorf("%d creations were acknowledged and only %d are stored", answers, after-before)
			}
			before = after
			return err
		},
	}), err
}

func inTime(ctx context.Context, count func(context.Context) (int64, error)) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
	defer cancel()
	return count(ctx)
}
