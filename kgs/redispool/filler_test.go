package redispool

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// fixture holds a ledger and a client of Redis. Its fillers push keys from the ledger to Redis.
type fixture struct {
	kgstest.LedgerUnderTest
	t      *testing.T
	client *redis.Client
	space  *codespace.Space
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	l := kgstest.NewSQLiteLedger(t)
	space, err := l.Open(t.Context(), ledger.Config{Permute: true})
	if err != nil {
		t.Fatal(err)
	}
	return fixture{l, t, testenv.Redis(t), space}
}

// filler returns the Filler of a new worker. All fillers share the client of the fixture and do not
// close it.
func (d fixture) filler(holder string) *Filler {
	d.t.Helper()
	return NewFiller(FillerConfig{
		Ledger: d.Ledger, Space: d.space, Holder: holder, Length: 6,
		Pool:   New(d.client, Config{Holder: holder, Space: d.space, Ledger: d.Ledger}),
		Close:  func() error { return nil },
		Logger: slog.New(slog.DiscardHandler), Metrics: kgs.NewMetrics(prometheus.NewRegistry()),
	})
}

// open returns a filler that has opened its pool.
func (d fixture) open(holder string) *Filler {
	d.t.Helper()
	s := d.filler(holder)
	d.wantSize(s, 0)
	return s
}

// wantSize calls Prepare, and then checks the number of keys in the pool.
func (d fixture) wantSize(s *Filler, want int64) {
	d.t.Helper()
	if err := s.Prepare(d.t.Context()); err != nil {
		d.t.Fatalf("Prepare: %v", err)
	}
	if n, err := s.Len(d.t.Context()); n != want || err != nil {
		d.t.Fatalf("Len = %d, %v, want %d", n, err, want)
	}
}

func (d fixture) fill(s *Filler, n, want int64) {
	d.t.Helper()
	if got, err := s.Fill(d.t.Context(), n); got != want || err != nil {
		d.t.Fatalf("Fill = %d, %v, want %d", got, err, want)
	}
}

// wantEpoch checks that the ledger and the pool are in the given epoch.
func (d fixture) wantEpoch(s *Filler, want int64) {
	d.t.Helper()
	epoch, err := d.Epoch(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	status, err := s.cfg.Pool.Status(d.t.Context())
	if err != nil || epoch.Number != want || status.Epoch != want {
		d.t.Errorf("the ledger is in epoch %d and the pool in %d (%v), want %d", epoch.Number, status.Epoch, err, want)
	}
}

// wantAll drains the pool. It checks that the pool held each reserved number exactly once.
func (d fixture) wantAll(s *Filler) {
	d.t.Helper()
	ranges, err := d.space.Ranges(kgstest.Drain(d.t, s.cfg.Pool, 100_000))
	if err != nil {
		d.t.Fatal(err) // Ranges also fails if a code occurs twice
	}
	counters, err := d.Counters(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	if want := []codespace.Range{{Length: 6, Lo: 0, Hi: counters.Reserved()}}; !slices.Equal(ranges, want) {
		d.t.Errorf("the pool held the numbers %v, want %v", ranges, want)
	}
	d.WantRows(d.t) // the ledger has no range in progress
}

func TestFillerOpensPoolAndPushesKeys(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.open("a")
	d.wantEpoch(s, 1)
	const n = 2*pushSize + 1
	d.fill(s, n, n)
	d.fill(s, 10, 10)
	d.wantSize(s, n+10)
	if err := s.Release(t.Context()); err != nil {
		t.Error(err)
	}
	d.wantAll(s)
}

// TestFillerRepeatsFailedHeartbeat checks that the next Prepare sends a heartbeat if the last
// heartbeat failed.
func TestFillerRepeatsFailedHeartbeat(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.open("other")
	s := d.filler("a")
	d.Exec(t, `ALTER TABLE kgs_holders RENAME TO kgs_holders_away`)
	if err := s.Prepare(t.Context()); err == nil {
		t.Error("Prepare succeeded without the table of holders")
	}
	d.Exec(t, `ALTER TABLE kgs_holders_away RENAME TO kgs_holders`)
	d.wantSize(s, 0)
	if holders, err := d.Holders(t.Context()); err != nil || !slices.Contains(holders, "a") {
		t.Errorf("the holders are %v (error %v), want a among them", holders, err)
	}
}

func TestNextFillerContinuesRangeOfCrashedFiller(t *testing.T) {
	t.Parallel()
	// These are the steps of a filler for one range of 1000 numbers. The filler crashes after one
	// of them. The step deliver does not include the call of Pool.Forget that follows it.
	steps := []struct {
		name string // name of the step
		do   func(ctx context.Context, s *Filler) error
	}{
		{"reserve", func(ctx context.Context, s *Filler) error { return s.reserve(ctx, 1000) }},
		{"half of the pushes", func(ctx context.Context, s *Filler) error { return s.pushTo(ctx, 500) }},
		{"all pushes", func(ctx context.Context, s *Filler) error { return s.pushTo(ctx, 1000) }},
		{"deliver", func(ctx context.Context, s *Filler) error {
			_, err := s.cfg.Ledger.Deliver(ctx, *s.current)
			return err
		}},
	}
	for i, last := range steps {
		t.Run(last.name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			dead := d.open("dead")
			for _, step := range steps[:i+1] {
				if err := step.do(t.Context(), dead); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
			}
			d.DeclareDead(t, "dead")
			heir := d.filler("heir")
			if err := heir.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := heir.Fill(t.Context(), 70); err != nil {
				t.Fatal(err)
			}
			d.wantEpoch(heir, 1)
			d.wantAll(heir)
		})
	}
}

// TestFillerPushesNoKeyTwiceAfterFreeze freezes a filler in the middle of a range, and another worker finishes the range. The
// frozen filler then continues and must push no key twice. The floor makes the pool refuse the push of the frozen
// filler. If the other worker has not raised the floor yet, the mark prevents this push.
func TestFillerPushesNoKeyTwiceAfterFreeze(t *testing.T) {
	t.Parallel()
	for name, fenced := range map[string]bool{"the new floor": true, "only the mark": false} {
		d := newFixture(t)
		frozen, heir := d.open("frozen"), d.open("heir")
		frozen.begin(t, 1000, 500)
		d.DeclareDead(t, "frozen")
		if fenced {
			d.fill(heir, 70, 500)
		} else {
			heir.begin(t, 70, 1000)
			if _, err := d.Deliver(t.Context(), *heir.current); err != nil { // does not call Forget
				t.Fatal(err)
			}
		}
		_, err := frozen.Fill(t.Context(), 70)
		if errors.Is(err, kgs.ErrFenced) != fenced || !fenced && err != nil || frozen.current != nil {
			t.Errorf("Fill after the freeze with %s: error %v, current range %v; want ErrFenced if the floor refuses the push and otherwise no error, and no current range in both cases",
				name, err, frozen.current)
		}
		d.fill(frozen, 70, 70) // the filler continues with another range
		d.wantAll(heir)
	}
}

// TestMarkAndFloorPreventSecondPushOfRange is the control of TestFillerPushesNoKeyTwiceAfterFreeze. Without
// the mark and the floor, the filler that was frozen pushes the range again.
func TestMarkAndFloorPreventSecondPushOfRange(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	frozen, heir := d.open("frozen"), d.open("heir")
	if err := frozen.reserve(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	d.DeclareDead(t, "frozen")
	d.fill(heir, 70, 1000)
	if err := d.client.HSet(t.Context(), heir.cfg.Pool.keys[0], "floor", 0).Err(); err != nil {
		t.Fatal(err)
	}
	d.fill(frozen, 70, 1000) // pushes the range a second time
	if _, err := d.space.Ranges(kgstest.Drain(t, heir.cfg.Pool, 2000)); err == nil {
		t.Error("no code was in the pool twice, so these tests prove nothing")
	}
}

func TestFillerContinuesAfterLostReply(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.open("a")
	s.begin(t, 1000, 1000)
	s.next = 0 // simulates a lost reply to the push
	if _, err := s.Fill(t.Context(), 70); err != nil {
		t.Error(err)
	}
	d.wantSize(s, 1000)
	d.wantAll(s)
}

func TestFillerDeliversRangeOfEndedEpoch(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.open("a")
	s.begin(t, 10, 10)
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.deliver(t.Context()); err != nil {
		t.Errorf("deliver: %v", err)
	}
}

// pushTo pushes the current range up to the number hi.
func (f *Filler) pushTo(ctx context.Context, hi int64) error {
	whole := *f.current
	f.current.Hi = hi
	_, err := f.push(ctx)
	f.current = &whole
	return err
}

// begin reserves a range of n numbers and pushes it up to the number hi.
func (f *Filler) begin(t *testing.T, n, hi int64) {
	t.Helper()
	if err := f.reserve(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := f.pushTo(t.Context(), hi); err != nil {
		t.Fatal(err)
	}
}
