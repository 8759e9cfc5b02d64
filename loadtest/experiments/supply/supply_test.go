package supply

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sound returns the record of a drain without faults. It drains 11,000 keys at 1,000 per second, in batches.
func sound() *record {
	r := &record{plan: plan{capacity: 11_000, rate: 1000}}
	start := time.Unix(1_000_000_000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for s := 0.0; s <= 20; s += 0.005 {
		keys := r.capacity - int64(s*1000)/50*50
		if s >= 15 {
			keys = r.capacity
		}
		r.seen = append(r.seen, level{at: at(s), keys: max(0, keys)})
	}
	r.alerts = []lab.Alert{{State: "restart", Received: at(9.3)}, {State: "page", Received: at(10.3)}, {State: "ok", Received: at(15.5)}}
	r.started, r.empty, r.back, r.full = start, at(11), at(14), at(15)
	r.predicted, r.simulated = predict(r.seen[:200]), 11*time.Second
	return r
}

// slow returns the record of a drain without faults, in which the pool lasts factor times as long
// as the pool of sound. The times of the other events are right only for a factor of 10.
func slow(factor int) *record {
	r := sound()
	for i := range r.seen {
		r.seen[i].at = r.started.Add(time.Duration(factor) * r.seen[i].at.Sub(r.started))
	}
	for i, s := range []int{89, 101, 155} {
		r.alerts[i].Received = r.started.Add(time.Duration(s) * time.Second)
	}
	r.empty, r.back, r.full = r.started.Add(110*time.Second), r.started.Add(149*time.Second), r.started.Add(153*time.Second)
	r.predicted, r.simulated = predict(r.seen[:200]), 110*time.Second
	return r
}

// answers adds an answer of /status to the record, at the given number of seconds after the worker was stopped.
func (r *record) answers(after float64, state string, keys int64) {
	r.statuses = append(r.statuses, lab.Sample[lab.Status]{
		At: r.started.Add(time.Duration(after * float64(time.Second))), Value: lab.Status{State: state, PoolKeys: &keys},
	})
}

// verdict judges the claim with the given name.
func verdict(r *record, name string) experiment.Verdict {
	all := claims()
	return all[slices.IndexFunc(all, func(c claim) bool { return c.Name == name })].Judge(r)
}

// Each wrong observation refutes exactly the claims that are about this observation.
func TestWrongObservationRefutesOnlyMatchingClaims(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*record)
		want  []string
	}{
		{"no fault", func(*record) {}, nil},
		{"pool empty earlier than predicted", func(r *record) { r.empty = r.empty.Add(-300 * time.Millisecond) }, []string{"pool empty as predicted"}},
		{"pool empty later than predicted", func(r *record) { r.empty = r.empty.Add(300 * time.Millisecond) }, []string{"pool empty as predicted"}},
		{"pool never empty", func(r *record) { r.empty = time.Time{} }, []string{"pool empty as predicted", "pool empty as simulated"}},
		{"pool empty earlier than simulated", func(r *record) { r.simulated = 11700 * time.Millisecond }, []string{"pool empty as simulated"}},
		{"pool empty later than simulated", func(r *record) { r.simulated = 10400 * time.Millisecond }, []string{"pool empty as simulated"}},
		{"no steady decline", func(r *record) { r.predicted, r.unsteady = decline{}, true }, []string{"pool empty as predicted"}},
		{"no signal restart", func(r *record) { r.alerts = r.alerts[1:] }, []string{"restart signalled"}},
		{"no signal restart, although /status showed the state restart", func(r *record) {
			r.alerts = r.alerts[1:]
			r.answers(9.5, "restart", 1500)
		}, []string{alarmOrder, "restart signalled"}},
		{"no signal restart, although the switch checked the pool often", func(r *record) {
			*r = *slow(10)
			r.alerts = r.alerts[1:]
		}, []string{alarmOrder, "restart signalled"}},
		{"slow drain", func(r *record) { *r = *slow(10) }, nil},
		{"signal restart after page", func(r *record) { r.alerts[0].State, r.alerts[1].State = "page", "restart" }, []string{alarmOrder, "page signalled"}},
		{"signal page twice", func(r *record) { r.alerts = slices.Insert(r.alerts, 2, r.alerts[1]) }, nil},
		{"signal restart during the refill", func(r *record) {
			r.alerts = slices.Insert(r.alerts, 2, lab.Alert{State: "restart", Received: r.started.Add(14900 * time.Millisecond)})
		}, nil},
		{"/status matches the levels", func(r *record) {
			r.answers(8, "ok", 3000)
			r.answers(9.5, "restart", 1500)
			r.answers(10.5, "page", 500)
			r.answers(14.5, "ok", 0) // after the worker was started again
		}, nil},
		{"/status shows ok below the threshold of restart", func(r *record) { r.answers(9.5, "ok", 2198) }, []string{alarmOrder}},
		{"/status shows restart below the threshold of page", func(r *record) { r.answers(10.5, "restart", 500) }, []string{alarmOrder}},
		{"no check between restart and page", func(r *record) {
			r.alerts = r.alerts[1:]
			for i := range r.seen {
				if r.seen[i].keys < 2200 {
					r.seen[i].keys = min(1000, r.seen[i].keys)
				}
			}
		}, nil},
		{"no signal page", func(r *record) { r.alerts = append(r.alerts[:1:1], r.alerts[2]) }, []string{alarmOrder, "page signalled"}},
		{"no signal at all", func(r *record) { r.alerts = nil }, []string{alarmOrder, "restart signalled", "page signalled", "ok signalled"}},
		{"alarms too early", func(r *record) {
			r.alerts[0].Received, r.alerts[1].Received = r.started.Add(time.Second), r.started.Add(2*time.Second)
		}, []string{"restart signalled", "page signalled"}},
		{"alarms too late", func(r *record) {
			r.alerts[0].Received, r.alerts[1].Received = r.started.Add(13500*time.Millisecond), r.started.Add(13500*time.Millisecond)
		}, []string{"restart signalled", "page signalled"}},
		{"no refill", func(r *record) { r.full = time.Time{}; r.back = r.started.Add(10500 * time.Millisecond) }, []string{refilled, "refill time"}},
		{"slow refill", func(r *record) { r.full = r.started.Add(19900 * time.Millisecond) }, []string{"refill time"}},
		{"no signal ok after the refill", func(r *record) { r.alerts = r.alerts[:2] }, []string{alarmOrder, "ok signalled"}},
		{"signal ok before the worker was started", func(r *record) {
			r.alerts = slices.Insert(r.alerts, 2, lab.Alert{State: "ok", Received: r.started.Add(11 * time.Second)})
		}, []string{alarmOrder}},
		{"several faults at a small scale", func(r *record) { *r = record{plan: r.plan, started: r.started, seen: r.seen}; r.small = true }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := sound()
			tt.spoil(r)
			if got := experiment.Failing(claims(), r); !slices.Equal(got, tt.want) {
				t.Errorf("the claims %q fail, want %q", got, tt.want)
			}
		})
	}
}

// The last batch of a drain may hold few keys, so the pool is empty later than predicted. The
// tolerance of the prediction covers this difference at the slowest rate, but not at half of the
// slowest rate.
func TestPredictionAtSlowestRateToleratesPartialBatch(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]report.Outcome{slowest(): report.Held, slowest() / 2: report.Failed} {
		r := &record{plan: plan{rate: rate, capacity: int64(rate * usualSeconds)}, started: time.Unix(1_000_000_000, 0)}
		full := leastFull(r.capacity)
		for at := time.Duration(0); r.empty.IsZero(); at += lookEvery {
			keys := max(0, full-int64(at.Seconds()*rate)/batch*batch)
			r.seen = append(r.seen, level{at: r.started.Add(at), keys: keys})
			if keys > full-full/10 {
				continue
			}
			if r.predicted.slope == 0 {
				r.predicted = predict(r.seen)
			}
			if keys == 0 {
				r.empty = r.started.Add(at)
			}
		}
		if v := verdict(r, "pool empty as predicted"); full%batch == 0 || v.Outcome != want {
			t.Errorf("a drain of %d keys at %v/s: the outcome is %q (%s), want %q", full, rate, v.Outcome, v.Why, want)
		}
	}
}

func TestSimulatedDrainLastsAsLongAsDrainWithoutFaults(t *testing.T) {
	t.Parallel()
	r := sound()
	r.simulated = 0
	if err := r.simulate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.simulated.Seconds(); got < 10.89 || got > 11.11 {
		t.Errorf("the simulated pool is empty after %v s, want 11 s", got)
	}
}

func TestSupplyChartsHaveLimitedNumberOfPoints(t *testing.T) {
	t.Parallel()
	r, e := sound(), report.Experiment{}
	for _, c := range claims() {
		e.Claims = append(e.Claims, report.Claim{Name: c.Name})
	}
	show(r, &e)
	if len(e.Charts) != 1 || len(e.Tables) != 1 || len(e.Tables[0].Rows) != 7 || len(e.Claims) != len(claims())-5 {
		t.Errorf("the report has %d charts, %d claims and the tables %v", len(e.Charts), len(e.Claims), e.Tables)
	}
	for _, c := range e.Charts {
		for _, s := range c.Series {
			if len(s.XY) > levelsKept {
				t.Errorf("the series %q has %d points, want at most %d", s.Name, len(s.XY), levelsKept)
			}
		}
	}
}

// Each bad figure of a run with a large pool refutes only the claim about this figure. An
// incomplete run refutes no claim.
func TestBadFigureOfLargePoolRefutesOnlyMatchingClaim(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000_000, 0)
	sound := filled{
		started: start, some: level{start.Add(10 * time.Second), 1000}, full: level{start.Add(60 * time.Second), largeKeys}, bytes: 8 * largeKeys, peak: 50 << 20,
		first: level{start, largeKeys}, last: level{start.Add(largeDrain), largeKeys - 240_000}, slope: 2000, complete: true,
	}
	for _, tt := range []struct {
		spoil func(*filled)
		want  []string
	}{
		{func(*filled) {}, nil},
		{func(f *filled) { f.some.at = start.Add(-10 * time.Second) }, []string{"fill rate"}},
		{func(f *filled) { f.full.at = start.Add(68 * time.Second) }, []string{"fill time"}},
		{func(f *filled) { f.bytes = 10 * largeKeys }, []string{"bytes per key"}},
		{func(f *filled) { f.peak = 65 << 20 }, []string{"worker memory"}},
		{func(f *filled) { f.last.keys = largeKeys - 230_000 }, []string{"full pool drains as predicted"}},
		{func(f *filled) { f.slope = 0 }, []string{"full pool drains as predicted"}},
		{func(f *filled) { f.complete = false }, nil},
	} {
		f := sound
		tt.spoil(&f)
		if got := experiment.Failing(claims(), &record{filled: &f}); !slices.Equal(got, tt.want) {
			t.Errorf("the claims %q fail, want %q", got, tt.want)
		}
	}
}

func TestAwaitReadsLevelAgainAfterError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failing := 3
		l := &levels{ask: func(context.Context) (int64, error) {
			if failing--; failing >= 0 {
				return 0, os.ErrDeadlineExceeded
			}
			return 7, nil
		}}
		if got, err := l.await(t.Context(), time.Second, "seven keys", func(l level) bool { return l.keys == 7 }); got.keys != 7 || err != nil {
			t.Errorf("await returns %d keys and the error %v, want 7 keys", got.keys, err)
		}
		if _, err := l.await(t.Context(), time.Second, "eight keys", func(l level) bool { return l.keys == 8 }); !errors.Is(err, errLate) {
			t.Errorf("await returns the error %v, want errLate", err)
		}
		failing = 1 << 30
		_, err := l.await(t.Context(), time.Second, "anything", func(level) bool { return true })
		if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errLate) {
			t.Errorf("await returns the error %v, want the error of the look", err)
		}
	})
}

func TestPredictionToleratesShortPauseOfDrain(t *testing.T) {
	t.Parallel()
	r := sound()
	seen := slices.Clone(r.seen[:201])
	for i := 90; i < 110; i++ { // no key is taken for a tenth of a second; then all keys that are due are taken at once
		seen[i].keys = seen[90].keys
	}
	if empty := predict(seen).empty().Sub(r.started).Seconds(); empty < 10.9 || empty > 11.1 {
		t.Errorf("the predicted time is %.2f s, want 11 s", empty)
	}
	if predict(seen[:10]).slope != 0 {
		t.Error("predict returned a slope for a level that did not fall")
	}
}
