package compare

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

const (
	crashLinks   = 15 // least number of links that each server acknowledges before each crash
	crashClients = 4  // clients that make links on each server when it is killed

	// crashBatch is the fixed size of a batch. Without a fixed size, a batch would grow with the rate, and the
	// result would depend on the speed of the machine.
	crashBatch = 100
)

// crash repeatedly kills the servers whose key source has a supply, while clients make links on
// them. Then it counts the numbers that no link has.
func (r *record) crash(t *experiment.T, stage *sources.Stage) {
	t.Phase(0.58, "starting the key sources that have a supply")
	all := launch(stage, func(f *found) bool { return f.supplied() == ahead || f.supplied() == perKey }, r.found, "KGS_PERMUTE=false",
		fmt.Sprintf("KGS_BATCH_MIN=%d", crashBatch), fmt.Sprintf("KGS_BATCH_MAX=%d", crashBatch))
	for i := range r.crashes {
		t.Phase(0.6+0.1*float64(i)/float64(r.crashes), "crash %d of %d, on %d servers", i+1, r.crashes, len(all))
		crashAll(t, all)
	}
	t.Phase(0.7, "counting skipped numbers")
	r.ReadBack(t, all)
	for _, one := range all {
		one.Server.Stop() // an orderly stop returns the keys that the server holds
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
// waits for its answer before its next creation.
func crashAll(t *experiment.T, all []*sources.Running) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for _, one := range all {
		for range crashClients {
			clients.Go(func() {
				for ctx.Err() == nil && !one.Server.Ended() {
					_, _ = one.Load.TryOne(ctx) // the kill may cause an error
				}
			})
		}
	}
	made := func(one *sources.Running) int64 { return loadtest.Count(one.Load.Entries()).Acknowledged }
	enough := make([]int64, len(all))
	for i, one := range all {
		enough[i] = made(one) + crashLinks
	}
	for i, one := range all {
		lab.Wait(t, lab.Patience, one.Name+" makes links", func() bool { return made(one) >= enough[i] })
	}
	for _, one := range all {
		one.Server.Kill()
	}
	clients.Wait()
	for _, one := range all {
		one.Server.Launch()
	}
	for _, one := range all {
		one.Server.AwaitReady(lab.Patience)
	}
}

// skippedBy counts the skipped numbers or keys of a server. The server took them, no link has them, and
// no server can take them again now. The server and its key service must have ended before the call.
func skippedBy(t *experiment.T, one *sources.Running) (n int64, err error) {
	switch one.Name {
	case "kgs", incr:
		return numbersSkipped(t.Context(), one.At.Links, 1)
	case "ticket":
		return numbersSkipped(t.Context(), one.At.Links, 2)
	case "postgres-pool-delete", "postgres-pool-reserve":
		return keysSkipped(t.Context(), one.At.Links)
	}
	// Crashed servers do not count as dead immediately, so the keys in their batches are added to the abandoned keys.
	accounts, err := lab.TryAudit(t, one.Server.Settings...)
	return accounts.Lost() + accounts.InBatches, err
}

// keysSkipped counts the used and reserved keys of a pool in PostgreSQL that no link has.
func keysSkipped(ctx context.Context, url string) (int64, error) {
	return lab.TryValue[int64](ctx, url, `SELECT count(*) FROM (SELECT key FROM used_keys UNION ALL SELECT key FROM available_keys WHERE is_reserved) AS taken
		WHERE key NOT IN (SELECT code FROM all_links)`)
}

// numbersSkipped converts the codes of all links to numbers, and returns how many numbers are missing (see gaps).
func numbersSkipped(ctx context.Context, url string, step int64) (int64, error) {
	var numbers []int64
	form := sources.FormOf(sources.Counter)
	err := lab.Census(url)(ctx, func(code, _ string) {
		if n, ok := form.Number(code); ok {
			numbers = append(numbers, n.Int64())
		}
	})
	return gaps(numbers, step), err
}

// gaps returns how many numbers are missing. It groups the numbers by their remainder modulo step. In each
// group, it counts the numbers that are missing between the least and the greatest number.
func gaps(numbers []int64, step int64) (n int64) {
	for remainder := range step {
		some := slices.DeleteFunc(slices.Clone(numbers), func(number int64) bool { return number%step != remainder })
		if len(some) > 0 {
			n += (slices.Max(some)-slices.Min(some))/step + 1 - int64(len(some))
		}
	}
	return n
}
