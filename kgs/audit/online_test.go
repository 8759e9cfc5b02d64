package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
	"keypool/kgs/mempool"
	"keypool/kgs/redispool"
)

// poolChunkLen is the number of codes of a pool that an audit reads at a time.
const poolChunkLen = 10_000

// holding is a batch that a server took. The server may have been killed since.
type holding struct {
	supply kgs.Supply
	*kgs.Batch
	spent int // number of codes of the batch that have a link
}

// system simulates a whole service in one goroutine. It has a ledger, a Redis pool, a server and
// a worker. It also has the state that the server and the worker keep in memory. Each random event
// is one step. Steps can occur between any two reads of an audit.
type system struct {
	t                      *testing.T
	rand                   *rand.Rand
	l                      kgstest.LedgerUnderTest
	client                 *redis.Client
	space                  *codespace.Space
	links                  []Linked
	server                 []kgs.Supply // the supplies that the server takes keys from
	held                   []holding
	worker                 *redispool.Filler
	serverName, workerName string // holder names of the server and the worker in the ledger
	names                  int
	steps                  int
	sound                  bool // if true, no step makes the pool lose its state
}

func newSystem(t *testing.T, seed uint64) *system {
	t.Helper()
	w := &system{t: t, rand: rand.New(rand.NewPCG(seed, 0)), l: kgstest.NewSQLiteLedger(t), client: testenv.Redis(t)}
	var err error
	if w.space, err = w.l.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	w.startServer()
	w.startWorker()
	w.refill()
	return w
}

func (w *system) name() string { w.names++; return fmt.Sprint("process ", w.names) }

func (w *system) pool(holder string) *redispool.Pool {
	return redispool.New(w.client, redispool.Config{Holder: holder, Space: w.space, Ledger: w.l})
}

func (w *system) startServer() {
	name := w.name()
	w.serverName = name
	w.must(w.l.Renew(w.t.Context(), name))
	w.server = []kgs.Supply{w.pool(name), mempool.NewLedgerSupply(w.l.Ledger, w.space, name, 6)}
	w.held = nil
}

func (w *system) startWorker() {
	name := w.name()
	w.workerName = name
	w.worker = redispool.NewFiller(redispool.FillerConfig{
		Ledger: w.l.Ledger, Pool: w.pool(name), Space: w.space, Holder: name, Length: 6,
		Close: func() error { return nil }, Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
	})
}

// must fails the test on any error, except for the errors of a pool that is empty or has lost
// its state.
func (w *system) must(err error) {
	w.t.Helper()
	if err != nil && !errors.Is(err, kgs.ErrNoEpoch) && !errors.Is(err, kgs.ErrFenced) && !errors.Is(err, kgs.ErrEmpty) {
		w.t.Fatalf("step %d: %v", w.steps, err)
	}
}

// step causes one random event.
func (w *system) step() {
	w.steps++
	likely := []func(){w.take, w.take, w.link, w.link, w.settle, w.refill}
	rare := []func(){w.stall, w.killServer, w.stopServer, w.killWorker, w.sweep, w.flush}
	if w.sound {
		rare = rare[:len(rare)-1] // without the last function, flush
	}
	all := likely
	if w.rand.IntN(8) == 0 {
		all = rare
	}
	all[w.rand.IntN(len(all))]()
}

func (w *system) take() {
	supply := w.server[w.rand.IntN(len(w.server))]
	b, err := supply.Take(w.t.Context(), 1+w.rand.IntN(2000))
	w.must(err)
	if err == nil {
		w.held = append(w.held, holding{supply: supply, Batch: b})
	}
}

func (w *system) link() {
	for i := range w.held {
		h := &w.held[i]
		upTo := h.spent + w.rand.IntN(len(h.Codes)-h.spent+1)
		for _, code := range h.Codes[h.spent:upTo] {
			w.links = append(w.links, placed(w.space, code, h.Source))
		}
		h.spent = upTo
	}
}

// settle settles one batch. Some of its unused codes are lost.
func (w *system) settle() {
	if len(w.held) == 0 {
		return
	}
	i := w.rand.IntN(len(w.held))
	h := w.held[i]
	w.held = slices.Delete(w.held, i, i+1)
	lost := h.spent + w.rand.IntN(len(h.Codes)-h.spent+1)/10
	w.must(h.supply.Settle(w.t.Context(), h.Batch, h.Codes[lost:], h.Codes[h.spent:lost]))
}

func (w *system) refill() {
	err := w.worker.Prepare(w.t.Context())
	w.must(err)
	keys, err := w.worker.Len(w.t.Context())
	w.must(err)
	if keys > poolChunkLen {
		return // the pool has enough keys for more than one read of an audit
	}
	_, err = w.worker.Fill(w.t.Context(), 1+w.rand.Int64N(2*poolChunkLen))
	w.must(err)
}

// stall simulates another worker that is killed in the middle of a range.
func (w *system) stall() {
	name := w.name()
	r, err := w.l.Reserve(w.t.Context(), name, ledger.StateShipping, 6, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	half := codespace.Range{Length: r.Length, Lo: r.Lo, Hi: r.Lo + (r.Len()+1)/2}
	_, err = w.pool(name).Push(w.t.Context(), r, half.Lo, half.Hi, w.space.AppendCodes(nil, half))
	w.must(err)
	w.l.DeclareDead(w.t, name)
}

func (w *system) killServer() {
	w.l.DeclareDead(w.t, w.serverName)
	w.startServer()
}

func (w *system) stopServer() {
	for len(w.held) > 0 {
		w.settle()
	}
	pool := w.server[0].(*redispool.Pool)
	w.must(pool.Release(w.t.Context()))
	w.must(w.l.Release(w.t.Context(), w.serverName))
	w.startServer()
}

func (w *system) killWorker() {
	w.l.DeclareDead(w.t, w.workerName)
	w.startWorker()
}

func (w *system) sweep() {
	_, err := w.l.Sweep(w.t.Context())
	w.must(err)
	_, err = w.server[0].(*redispool.Pool).Sweep(w.t.Context())
	w.must(err)
}

// flush deletes all data of the pool. Half the time, the worker refills it at once.
func (w *system) flush() {
	w.must(w.client.FlushDB(w.t.Context()).Err())
	if w.rand.IntN(2) == 0 {
		w.refill()
	}
}

// evidence returns the data of the system for an audit. It calls the function happen between any two
// reads.
func (w *system) evidence(happen func()) Evidence {
	pool := w.pool("auditor")
	return Evidence{
		Space: w.space,
		Order: w.space,
		Snapshot: func(ctx context.Context) (ledger.Snapshot, error) {
			happen()
			defer happen()
			return w.l.Snapshot(ctx)
		},
		Epochs: onlyList(func(ctx context.Context) (int64, error) {
			s, err := pool.Status(ctx)
			happen()
			return s.Epoch, err
		}),
		Pool: func(ctx context.Context, _ map[int]int64) iter.Seq2[kgs.PoolEntry, error] {
			return amid(pool.Snapshot(ctx), happen)
		},
		Links: func(context.Context) iter.Seq2[Linked, error] {
			happen()
			return amid(noErrors(slices.Clone(w.links)), happen) // cloned, because a query reads the rows of one moment
		},
	}
}

// amid returns the elements of the sequence all. It sometimes calls the function happen between two
// elements.
func amid[T any](all iter.Seq2[T, error], happen func()) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n := 0
		for v, err := range all {
			if n++; n%5000 == 0 {
				happen()
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// At any moment, an audit finds that the accounts close, or fails because it cannot read the
// pool of the present epoch. It never reports a fault. As a control, some single passes must
// find faults.
func TestAuditReportsNoFaultWhileServiceRuns(t *testing.T) {
	t.Parallel()
	const seeds, audits = 4, 10
	closed, controls := 0, 0
	for seed := range uint64(seeds) {
		w := newSystem(t, seed)
		for range audits {
			for range 5 {
				w.step()
			}
			a, err := Run(t.Context(), w.evidence(w.step))
			if len(a.Faults) > 0 {
				t.Fatalf("seed %d, step %d: the audit found %d faults, such as %s",
					seed, w.steps, len(a.Faults), a.Faults[0])
			}
			switch {
			case err == nil:
				closed++
				wantSums(t, a)
			case !isUndecided(err):
				t.Fatalf("seed %d, step %d: %v", seed, w.steps, err)
			}
			if p, err := w.evidence(w.step).pass(t.Context(), nil); err == nil && len(p.found) > 0 {
				controls++
			}
		}
		w.refill() // opens the pool if necessary
		if a, err := Run(t.Context(), w.evidence(func() {})); err != nil || len(a.Faults) > 0 || a.OnTheMove > 0 {
			t.Errorf("seed %d, at rest: the audit found %d faults and %d keys on the move, error %v; want none",
				seed, len(a.Faults), a.OnTheMove, err)
		}
	}
	if closed == 0 || controls == 0 {
		t.Errorf("%d audits closed the accounts and %d single passes did not; the test needs some of both", closed, controls)
	}
	t.Logf("%d of %d audits closed the accounts; %d single passes did not", closed, seeds*audits, controls)
}

// An audit must find a key that is in no place while other keys move.
func TestAuditFindsMissingKeyWhileServiceRuns(t *testing.T) {
	t.Parallel()
	w := newSystem(t, 0)
	w.sound = true
	var want []Fault
	for range 3 {
		w.refill() // the pool then has a code that the test can remove
		code, err := w.client.LPop(t.Context(), "keypool:{default}:keys").Result()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, Fault{FaultMissing, code})
		got, err := Run(t.Context(), w.evidence(w.step))
		if err != nil {
			t.Fatal(err)
		}
		byCode := func(a, b Fault) int { return strings.Compare(a.Code, b.Code) }
		slices.SortFunc(want, byCode)
		slices.SortFunc(got.Faults, byCode)
		if diff := cmp.Diff(want, got.Faults); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
		wantSums(t, got)
	}
}

func isUndecided(err error) bool {
	return errors.Is(err, ErrPoolUnknown) || errors.Is(err, ErrEpochChanged) || errors.Is(err, kgs.ErrNoEpoch) || errors.Is(err, kgs.ErrFenced)
}
