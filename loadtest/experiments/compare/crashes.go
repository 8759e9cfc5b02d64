package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	crashLinks   = 15 // acknowledged by each server before each crash, at least
	crashClients = 4  // that make links on each server when it is killed

	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" // of codes, in the order of their values
)

// crash kills each server that gives out numbers again and again while links are made, and then
// counts the numbers that no link has.
func (r *record) crash(t *experiment.T, stage *sources.Stage) {
	t.Phase(0.58, "starting the key sources that have numbers")
	all := launch(stage, func(f *found) bool { return f.supplied() != without }, r.found, "KGS_PERMUTE=false")
	for i := range r.crashes {
		t.Phase(0.6+0.1*float64(i)/float64(r.crashes), "crash %d of %d of %d servers", i+1, r.crashes, len(all))
		crashAll(t, all)
	}
	t.Phase(0.7, "counting skipped numbers")
	r.ReadBack(t, all)
	for _, one := range all {
		one.Server.Stop() // in order: what it holds goes back and is not skipped
		if one.Service {
			one.At.Service.Stop()
		}
		n, err := skippedBy(t, one)
		if err != nil {
			r.Fail(one.Name, fmt.Errorf("count skipped numbers: %w", err))
			continue
		}
		r.of(one.Name).skipped = measure.Series{float64(n) / float64(r.crashes)}
	}
}

// crashAll kills all servers while clients make links on them, and starts them again. Each client
// waits for its answer, because batches grow with the rate and a busy machine delays a load that
// does not wait.
func crashAll(t *experiment.T, all []*sources.Running) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients errgroup.Group
	for _, one := range all {
		for range crashClients {
			clients.Go(func() (err error) {
				for err == nil && ctx.Err() == nil && !one.Server.Ended() {
					_, err = one.Load.TryOne(ctx)
				}
				return err
			})
		}
	}
	for _, one := range all {
		made := func() int64 { return loadtest.Count(one.Load.Entries()).Acknowledged }
		enough := made() + crashLinks
		lab.Wait(t, lab.Patience, one.Name+" makes links", func() bool { return made() >= enough })
	}
	for _, one := range all {
		one.Server.Kill()
	}
	t.Must(clients.Wait())
	for _, one := range all {
		one.Server.Launch()
	}
	for _, one := range all {
		one.Server.AwaitReady(lab.Patience)
	}
}

// skippedBy counts the numbers, or keys, that a server took, that no link has and that cannot be had
// again at the moment. All servers have ended.
func skippedBy(t *experiment.T, one *sources.Running) (n int64, err error) {
	switch one.Name {
	case "kgs", incr:
		return numbersSkipped(t.Context(), one.At.Links, 1)
	case "ticket":
		return numbersSkipped(t.Context(), one.At.Links, 2)
	case "postgres-pool-delete", "postgres-pool-reserve":
		return keysSkipped(t.Context(), one.At.Links)
	}
	// What is abandoned, and what is in the batches of crashed servers, which do not count as dead at once.
	accounts, err := lab.TryAudit(t, one.Server.Settings...)
	return accounts.Lost() + accounts.InBatches, err
}

// keysSkipped counts the keys of a pool in PostgreSQL that are used or reserved and that no link has.
func keysSkipped(ctx context.Context, url string) (n int64, err error) {
	err = lab.TryQuery(ctx, url, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM (SELECT key FROM used_keys UNION ALL SELECT key FROM available_keys WHERE is_reserved) AS taken
			WHERE key NOT IN (SELECT code FROM links)`).Scan(&n)
	})
	return n, err
}

// numbersSkipped reads the codes of links as numbers.
func numbersSkipped(ctx context.Context, url string, step int64) (int64, error) {
	var numbers []int64
	err := lab.Census(url)(ctx, func(code, _ string) {
		n := int64(0)
		for _, digit := range code {
			n = n*int64(len(digits)) + int64(strings.IndexRune(digits, digit))
		}
		numbers = append(numbers, n)
	})
	return gaps(numbers, step), err
}

// gaps counts the numbers between the least and the greatest of those that have the same remainder
// of a division by step, and are not among them.
func gaps(numbers []int64, step int64) (n int64) {
	for remainder := range step {
		some := slices.DeleteFunc(slices.Clone(numbers), func(number int64) bool { return number%step != remainder })
		if len(some) > 0 {
			n += (slices.Max(some)-slices.Min(some))/step + 1 - int64(len(some))
		}
	}
	return n
}
