package pgpool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/keysource"
	"keypool/kgs/kgstest"
	"keypool/kgs/refill"
)

// keyPool holds the tables of a Pool that is open and empty. Its methods imitate processes that use
// the tables.
type keyPool struct{ *kgstest.KeyTables }

func newKeyPool(t testing.TB) keyPool {
	t.Helper()
	k := keyPool{kgstest.NewKeyTables(t)}
	k.fill() // opens the pool
	return k
}

// filler returns the Filler of a process that has just started.
func (k keyPool) filler(draw kgs.Generator) *Filler {
	return NewFiller(New(k.DB, Config{}), draw, slog.New(slog.DiscardHandler))
}

// fill runs one round of a worker that draws the given codes.
func (k keyPool) fill(codes ...string) {
	k.T.Helper()
	s := k.filler(&kgstest.DrawnCodes{Codes: codes})
	if err := s.Prepare(k.T.Context()); err != nil {
		k.T.Fatal(err)
	}
	if _, err := s.Fill(k.T.Context(), int64(len(codes))); err != nil {
		k.T.Fatal(err)
	}
}

// process returns the Pool of a separate process, which is recorded in the ledger as holder.
func (k keyPool) process(holder string, reserve bool) *Pool {
	k.T.Helper()
	k.AddHolder(holder)
	return New(k.Connect(), Config{Holder: holder, Reserve: reserve})
}

// bothWays runs a test without Config.Reserve and with it.
func bothWays(t *testing.T, test func(t *testing.T, reserve bool)) {
	t.Helper()
	t.Parallel()
	t.Run("delete", func(t *testing.T) { t.Parallel(); test(t, false) })
	t.Run("reserve", func(t *testing.T) { t.Parallel(); test(t, true) })
}

func TestPostgresPoolFollowsSupplyContract(t *testing.T) {
	bothWays(t, func(t *testing.T, reserve bool) {
		kgstest.TestSupply(t, func(t *testing.T, keys int) kgstest.SupplyUnderTest {
			k := newKeyPool(t)
			k.fill(kgstest.Codes(0, int64(keys))...)
			return kgstest.SupplyUnderTest{Supply: k.process("a", reserve)}
		})
	})
}

// spenders are goroutines that use half of each batch and return the rest. They stop when they have
// used enough keys together.
type spenders struct {
	mu   sync.Mutex
	used []string
}

func (s *spenders) run(ctx context.Context, p *Pool, enough int) error {
	for ctx.Err() == nil {
		b, err := p.Take(ctx, 20)
		if errors.Is(err, kgs.ErrEmpty) {
			continue
		}
		if err != nil {
			return err
		}
		half := len(b.Codes) / 2
		s.mu.Lock()
		s.used = append(s.used, b.Codes[:half]...)
		done := len(s.used) >= enough
		s.mu.Unlock()
		if err := p.Settle(ctx, b, b.Codes[half:], nil); err != nil || done {
			return err
		}
	}
	return ctx.Err()
}

// spend runs two workers, and two processes with four spenders each. The workers draw codes of
// three characters, so they often draw the same code again. spend returns how many keys were used,
// and how many of them were used more than once.
func spend(t *testing.T, k keyPool, ways [2]bool, enough int) (used, twice int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var jobs, takers sync.WaitGroup
	for range 2 {
		jobs.Go(func() {
			w := refill.NewWorker(refill.WorkerConfig{
				Filler:   k.filler(keysource.Random{Length: func() int { return codespace.MinLength }}),
				Capacity: 2000, Chunk: 500, Interval: time.Millisecond,
				Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
			})
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	var s spenders
	for i, reserve := range ways {
		p := k.process(fmt.Sprint("process ", i), reserve)
		for range 4 {
			takers.Go(func() {
				if err := s.run(t.Context(), p, enough); err != nil {
					t.Error(err)
				}
			})
		}
	}
	takers.Wait()
	stop()
	jobs.Wait()
	slices.Sort(s.used)
	return len(s.used), len(s.used) - len(slices.Compact(slices.Clone(s.used)))
}

func TestPostgresPoolGivesNoKeyToTwoProcesses(t *testing.T) {
	t.Parallel()
	for name, ways := range map[string][2]bool{
		"delete": {false, false}, "reserve": {true, true}, "delete and reserve": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeyPool(t)
			used, twice := spend(t, k, ways, 20_000)
			if twice > 0 {
				t.Errorf("%d keys were used, %d of them more than once", used, twice)
			}
			if n := k.Count(`SELECT count(*) FROM used_keys`); n < used {
				t.Errorf("used_keys has %d keys, want at least %d", n, used)
			}
		})
	}
}

// This is the control of TestPostgresPoolGivesNoKeyToTwoProcesses. Without the unique constraint, a key that is
// drawn a second time is handed out a second time.
func TestPostgresPoolUniqueConstraintPreventsDuplicates(t *testing.T) {
	t.Parallel()
	k := newKeyPool(t)
	k.Exec(`ALTER TABLE used_keys DROP CONSTRAINT used_keys_pkey`)
	k.fill(kgstest.Codes(0, 4)...)
	p := k.process("a", false)
	kgstest.Take(t, p, 4)
	k.DrawAgain(kgstest.Codes(0, 4)...)
	kgstest.WantLeft(t, kgstest.SupplyUnderTest{Supply: p}, kgstest.Codes(0, 4))
}
