package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"

	"github.com/jackc/pgx/v5"
)

const (
	crashLinks   = 15 // acknowledged by each server before each crash, at least
	crashClients = 4  // that make links on each server when it is killed

	// mostSkipped is how many numbers a crash may cost a key source that holds two batches.
	mostSkipped = 250
	// fewSkipped is how many it may cost one that calls for each key: those in progress, and what
	// a sequence of PostgreSQL writes ahead.
	fewSkipped = 40

	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" // of codes, in the order of their values
)

func crashClaims() []experiment.Claim[record] {
	skipped := func(f *found) (float64, bool) { return lab.Known(f.skipped, 0), f.skipped != nil }
	return []experiment.Claim[record]{
		atMost(ahead, mostSkipped, "a crash costs at most two batches",
			"A crash costs a key source that takes keys ahead at most what the server held: two batches of about a hundred.", "numbers per crash", skipped),
		atMost(perKey, fewSkipped, "counters lose next to nothing",
			"A crash costs a counter what was in progress, and tickets also what their sequences write ahead.", "numbers per crash", skipped),
	}
}

// crash kills each server that gives out numbers again and again while links are made, and then
// counts the numbers that no link has.
func (r *record) crash(t *experiment.T, stage *sources.Stage) {
	t.Phase(0.58, "starting the key sources that have numbers")
	var all []*sources.Running
	for _, s := range sources.Compared() {
		if suppliedOf(&s) != without {
			all = append(all, stage.Launch(&s, stage.Supply(&s, ""), fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys), "KGS_PERMUTE=false"))
		}
	}
	stage.AwaitFull(all)
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
			r.fail(one.Name, fmt.Errorf("count skipped numbers: %w", err))
			continue
		}
		each := float64(n) / float64(r.crashes)
		r.found[one.Name].skipped = &each
	}
}

// crashAll kills all servers while clients make links on them, and starts them again.
func crashAll(t *experiment.T, all []*sources.Running) {
	var clients sync.WaitGroup
	made, stops := make([]atomic.Int64, len(all)), make([]context.CancelFunc, len(all))
	for i, one := range all {
		ctx, stop := context.WithCancel(t.Context())
		stops[i] = stop
		for range crashClients {
			clients.Go(func() {
				for ctx.Err() == nil {
					entry, err := one.Load.TryOne(ctx)
					if err != nil {
						t.Errorf("make a link on %s: %w", one.Name, err)
						return
					}
					if entry.State == loadtest.Acknowledged {
						made[i].Add(1)
					}
				}
			})
		}
	}
	enough := lab.Happens(t, 20*time.Second, func() bool {
		for i := range made {
			if made[i].Load() < crashLinks {
				return false
			}
		}
		return true
	})
	for i, one := range all {
		one.Server.Kill()
		stops[i]()
	}
	clients.Wait()
	if !enough {
		t.Fatalf("not every key source makes %d links in 20 s", crashLinks)
	}
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

// skippedCell says also what becomes of the skipped numbers, unless they are gone for good.
func (f *found) skippedCell(s *sources.Source) string {
	switch {
	case f.skipped == nil:
		return unknown
	case s.Name == "postgres-pool-reserve":
		return fmt.Sprintf("%.4g, back after ten minutes", *f.skipped)
	}
	return fmt.Sprintf("%.4g", *f.skipped)
}

func (r *record) showCrashes(e *report.Experiment) {
	e.Notes = append(e.Notes,
		fmt.Sprintf("Crashes: each server is killed %d times with SIGKILL while %d clients make links, each time after at least %d of them, and started again. In the end it stops in order, "+
			"and the numbers that no link has are counted. Gaps are allowed; a code that is given out twice is not. KGS_PERMUTE=false, and KGS_BATCH_MIN is its default of 100.",
			r.crashes, crashClients, crashLinks),
		"What the pools and the ledger skip is what `shortener audit` counts as abandoned, or as in batches although no server runs. Codes of the others are read as numbers: what is "+
			"missing between the least and the greatest is skipped, of tickets among the odd and among the even ones. A pool in "+
			"PostgreSQL draws its keys; those that are used or reserved and no link has are counted.",
		"What a crash skips is gone for good: an expired lease of the key service returns nothing either. Only keys that are reserved in PostgreSQL are given out again, "+
			"ten minutes after a server that is dead took them; here they are counted and not awaited.",
		"Snowflake, hash, UUID and random codes have no numbers to skip.")
	table := report.Table{Title: fmt.Sprintf("Numbers skipped in %d crashes", r.crashes), Columns: []string{"key source", "per crash"}}
	r.eachFound(func(s *sources.Source, f *found) {
		if f.skipped != nil {
			table.Rows = append(table.Rows, []string{s.Name, f.skippedCell(s)})
		}
	})
	e.Tables = append(e.Tables, table)
	e.Charts = append(e.Charts, chart("Numbers that a crash skips", "numbers", "per crash", r.collect("numbers", func(f *found) []float64 {
		if f.skipped == nil {
			return nil
		}
		return []float64{*f.skipped}
	})))
}
