package scenario

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"keypool/loadtest/report"
)

// small is a drainage of a few seconds, with time for the switch to look before the worker is
// back.
func small() *drainage {
	run := quiet()
	run.Rate = 500
	d := newDrainage(run)
	d.capacity, d.fallback = 2000, 1500*time.Millisecond
	return d
}

func TestDrain(t *testing.T) {
	t.Parallel()
	d := small()
	if err := d.execute(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Of so few seconds a tenth is too short to go by.
	mustHold(t, d.Scenario, claimEmpty)
	if len(d.Charts) != 3 || len(d.Tables) != 2 || len(d.Tables[0].Rows) < 2 {
		t.Errorf("%d charts, tables %v", len(d.Charts), d.Tables)
	}
}

// A worker that is never started again is found out.
func TestDrainWithADeadWorker(t *testing.T) {
	t.Parallel()
	d := small()
	d.revive = func(context.Context) error { return nil }
	if err := d.execute(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := d.find(claimBack); c.Verdict != report.Failed {
		t.Errorf("%s: %s: %s", c.Name, c.Verdict, c.Why)
	}
}

// recorded is a drainage of 11,000 keys at 1,000 a second as it ought to be, by the batch.
func recorded() *drainage {
	d := newDrainage(&Run{})
	start := time.Unix(1_000_000_000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for s := 0.0; s <= 20; s += 0.005 {
		keys := d.capacity - int64(s*1000)/50*50
		if s >= 15 {
			keys = d.capacity
		}
		d.record.seen = append(d.record.seen, level{at: at(s), keys: max(0, keys)})
	}
	d.record.signals = []told{{State: "restart", at: at(9.3)}, {State: "page", at: at(10.3)}, {State: "ok", at: at(15.5)}}
	d.record.started, d.record.empty, d.record.back, d.record.full = start, at(11), at(14), at(15)
	d.record.foretold, _ = foretell(d.record.seen[:200])
	return d
}

// Each claim fails by what it is about.
func TestDrainFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*drainRecord)
		want  []string
	}{
		{"as it ought to be", func(*drainRecord) {}, nil},
		{"empty sooner", func(r *drainRecord) { r.empty = r.empty.Add(-300 * time.Millisecond) }, []string{claimEmpty}},
		{"empty later", func(r *drainRecord) { r.empty = r.empty.Add(300 * time.Millisecond) }, []string{claimEmpty}},
		{"never empty", func(r *drainRecord) { r.empty = time.Time{} }, []string{claimEmpty}},
		{"empty later, beside a hog", func(r *drainRecord) { r.empty = r.empty.Add(300 * time.Millisecond); r.others = 0.5 }, nil},
		{"no steady decline", func(r *drainRecord) { r.foretold, r.unsteady = decline{}, true }, []string{claimEmpty}},
		{"no steady decline, beside a hog", func(r *drainRecord) {
			r.foretold, r.unsteady, r.others = decline{}, true, 0.5
		}, nil},
		{"no restart", func(r *drainRecord) { r.signals = r.signals[1:] }, []string{claimRestart}},
		{"no restart, beside a hog", func(r *drainRecord) { r.signals = r.signals[1:]; r.others = 0.5 }, nil},
		{"no look between restart and page", func(r *drainRecord) {
			r.signals = r.signals[1:]
			for i := range r.seen {
				if r.seen[i].keys < 2200 {
					r.seen[i].keys = min(1000, r.seen[i].keys)
				}
			}
		}, nil},
		{"no page", func(r *drainRecord) { r.signals = append(r.signals[:1:1], r.signals[2]) }, []string{claimPage}},
		{"alarms for nothing", func(r *drainRecord) {
			r.signals[0].at, r.signals[1].at = r.started.Add(time.Second), r.started.Add(2*time.Second)
		}, []string{claimRestart, claimPage}},
		{"alarms long after", func(r *drainRecord) {
			r.signals[0].at, r.signals[1].at = r.started.Add(13500*time.Millisecond), r.started.Add(13500*time.Millisecond)
		}, []string{claimRestart, claimPage}},
		{"no way back", func(r *drainRecord) { r.full = time.Time{}; r.back = r.started.Add(10 * time.Second) }, []string{claimBack}},
		{"a long way back", func(r *drainRecord) { r.back = r.started.Add(9 * time.Second) }, []string{claimBack}},
		{"no all-clear", func(r *drainRecord) { r.signals = r.signals[:2] }, []string{claimClear}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := recorded()
			tt.spoil(&d.record)
			d.judgeRecord()
			mustFail(t, d.Scenario, tt.want...)
		})
	}
}

// At the slowest rate the last batch may be next to empty, and below it that fails a claim.
func TestDrainAtItsSlowest(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]report.Verdict{drainSlowest(): report.Held, drainSlowest() / 2: report.Failed} {
		d := newDrainage(&Run{Rate: rate})
		r := &d.record
		r.started = time.Unix(1_000_000_000, 0)
		full := d.capacity - d.capacity/10
		for at := time.Duration(0); r.empty.IsZero(); at += levelsPeriod {
			keys := max(0, full-int64(at.Seconds()*rate)/drainBatch*drainBatch)
			r.seen = append(r.seen, level{at: r.started.Add(at), keys: keys})
			if keys > full-full/10 {
				continue
			}
			if r.foretold.slope == 0 {
				r.foretold, _ = foretell(r.seen)
			}
			if keys == 0 {
				r.empty = r.started.Add(at)
			}
		}
		d.judgeEmpty()
		if c := d.find(claimEmpty); full%drainBatch == 0 || c.Verdict != want {
			t.Errorf("of %d keys at %v/s: %s because %q, want %s", full, rate, c.Verdict, c.Why, want)
		}
	}
}

// A pool that lasts less than a minute, with nothing arriving for ten seconds, is called
// before its level is reached.
func TestDrainMayBeCalledEarly(t *testing.T) {
	t.Parallel()
	d := recorded()
	d.capacity *= 2 // so that the levels are reached when the record has 4,400 and 2,200 keys
	for i := range d.record.seen {
		d.record.seen[i].keys *= 2
		d.record.seen[i].at = d.record.started.Add(2 * d.record.seen[i].at.Sub(d.record.started))
	}
	d.record.empty, d.record.back, d.record.full = d.record.started.Add(22*time.Second), time.Time{}, time.Time{}
	d.record.foretold, _ = foretell(d.record.seen[:200])
	d.record.signals = []told{{State: "page", at: d.record.started.Add(13 * time.Second)}}
	d.judgeRecord()
	for _, name := range []string{claimEmpty, claimRestart, claimPage} {
		if c := d.find(name); c.Verdict != report.Held {
			t.Errorf("%s: %s: %s", c.Name, c.Verdict, c.Why)
		}
	}
}

// A question that is not answered is asked again.
func TestInsist(t *testing.T) {
	t.Parallel()
	asked := 0
	got, err := insist(t.Context(), func(context.Context) (int, error) {
		if asked++; asked < 3 {
			return 0, errLate
		}
		return asked, nil
	})
	if got != 3 || err != nil {
		t.Errorf("%d, error %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := insist(ctx, func(context.Context) (int, error) { return 0, errLate }); err == nil {
		t.Error("no error, although the run was ended")
	}
}

// A look that fails when its time is up is repeated, and only what is seen counts.
func TestUntilLooksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failing := 3
		l := &levels{ask: func(context.Context) (int64, error) {
			if failing--; failing >= 0 {
				return 0, context.DeadlineExceeded
			}
			return 7, nil
		}}
		if got, err := l.until(t.Context(), 0, "seven keys", func(l level) bool { return l.keys == 7 }); got.keys != 7 || err != nil {
			t.Errorf("%d keys, error %v", got.keys, err)
		}
		failing = 1 << 30
		if _, err := l.until(t.Context(), 0, "anything", func(level) bool { return true }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// What was there at the first look came before, and a few looks tell nothing.
func TestFilling(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000_000, 0)
	var seen []level
	for i := range 20 { // nothing at first, then 5000 at once and 100 more every 5 ms
		l := level{at: start.Add(time.Duration(i) * levelsPeriod)}
		if i >= 5 {
			l.keys = 5000 + 100*int64(i-5)
		}
		seen = append(seen, l)
	}
	if rate, known := filling(seen); !known || rate < 19_999 || rate > 20_001 {
		t.Errorf("%.0f keys/s, known %v, want 20000", rate, known)
	}
	for _, few := range [][]level{nil, seen[:5], seen[:16]} {
		if rate, known := filling(few); known {
			t.Errorf("%.0f keys/s of %d looks", rate, len(few))
		}
	}
}

// A tenth in which the machine was busy for a moment foretells as well as any other.
func TestForetell(t *testing.T) {
	t.Parallel()
	d := recorded()
	seen := append([]level(nil), d.record.seen[:201]...)
	for i := 90; i < 110; i++ { // nothing was taken for a tenth of a second, and then at once
		seen[i].keys = seen[90].keys
	}
	got, ok := foretell(seen)
	if empty := got.empty().Sub(d.record.started).Seconds(); !ok || empty < 10.9 || empty > 11.1 {
		t.Errorf("empty after %.2f s, known %v, want 11 s", empty, ok)
	}
	if _, ok := foretell(seen[:10]); ok {
		t.Error("something was foretold from a pool that did not go down")
	}
}
