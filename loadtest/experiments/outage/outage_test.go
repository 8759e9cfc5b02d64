package outage

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Redis stays down until all local keys are used up, whatever the rate of creations is.
func TestOutageOutlastsLocalKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options experiment.Options
		want    time.Duration
	}{
		{experiment.Options{Scale: 1}, 7 * time.Second},
		{experiment.Options{Scale: 1, Rate: 4000}, 7 * time.Second},
		{experiment.Options{Scale: 1, Rate: 400}, 13 * time.Second}, // 4000 local keys last 10 s at 400/s; Redis stays down for 3 s more
		{experiment.Options{Scale: 1, Full: true}, 40 * time.Second},
		{experiment.Options{Scale: 1, Full: true, Rate: 100}, 43 * time.Second},
	} {
		if got := choose(tt.options).down; got != tt.want {
			t.Errorf("at %v/s, Redis is down for %v, want %v", tt.options.Rate, got, tt.want)
		}
	}
	small := choose(experiment.Options{Scale: 0.1})
	if local := time.Duration(float64(2*small.servers*small.batch) / small.rate * float64(time.Second)); small.down < local+2*grace+time.Second {
		t.Errorf("in a small run, Redis is down for %v, which is too short because local keys last %v", small.down, local)
	}
}

// sound returns the record of a run without faults. Each server uses its local keys, then random codes, and
// then keys of the new epoch.
func sound() *record {
	const firstEpoch, secondEpoch = 1000, 2000 // all numbers below firstEpoch are reserved when the first epoch ends, and all below secondEpoch when the second ends
	killed := time.Unix(1_000_000_000, 0)
	r := &record{
		plan: plan{servers: 4, batch: 100, rate: 200}, whole: true,
		killed: killed, started: killed.Add(8 * time.Second), back: killed.Add(8 * time.Second),
		before: ledger{reserved: 500, epoch: 1}, lost: ledger{reserved: firstEpoch, epoch: 1}, after: ledger{reserved: secondEpoch, epoch: 2},
	}
	recovered := r.back.Add(2 * time.Second)
	for i := range r.servers {
		held := 110 + 20*i
		r.atKill.each = append(r.atKill.each, localKeys{at: killed, keys: int64(held)})
		var creations []creation
		for n := range 15 * 50 {
			c := creation{at: killed.Add(time.Duration(n+1) * 20 * time.Millisecond), created: true}
			switch {
			case n < held:
				c.number = rand.Int64N(firstEpoch)
			case c.at.Before(recovered):
				c.number = secondEpoch + rand.Int64N(1e10)
				r.reported++
			default:
				c.number = firstEpoch + rand.Int64N(secondEpoch-firstEpoch)
			}
			creations = append(creations, c)
		}
		r.creations = append(r.creations, creations)
	}
	for _, l := range []look{{closed: 4, batch: 4}, {open: 4}, {closed: 4, batch: 4}} {
		r.looks = append(r.looks, lab.Sample[look]{At: killed, Value: l})
	}
	_, observed := r.localKeys()
	r.simulated = time.Duration(mean(observed) * float64(time.Second))
	return r
}

// Each wrong observation refutes exactly the claims that are about this observation.
func TestWrongObservationRefutesOnlyMatchingClaims(t *testing.T) {
	t.Parallel()
	// each changes the creations of all servers between from and to, in seconds after the kill.
	each := func(r *record, from, to float64, change func(*creation)) {
		for _, creations := range r.creations {
			for i := range creations {
				if s := creations[i].at.Sub(r.killed).Seconds(); s >= from && s < to {
					change(&creations[i])
				}
			}
		}
	}
	tests := []struct {
		name  string
		spoil func(*record)
		want  []string
	}{
		{"no fault", func(*record) {}, nil},
		{"local keys used up too soon", func(r *record) {
			for i := range r.atKill.each {
				r.atKill.each[i].keys += 20
			}
		}, []string{"local keys last as predicted"}},
		{"less than a batch per server", func(r *record) {
			for i := range r.atKill.each {
				r.atKill.each[i].keys = 50
			}
			each(r, 1, 8, func(c *creation) {
				if c.number < r.after.reserved {
					c.number = 1e9
					r.reported++
				}
			})
		}, []string{"local keys last as simulated", "local keys last at least a batch"}},
		{"local keys last longer than simulated", func(r *record) {
			r.simulated -= r.simulated / 10
		}, []string{"local keys last as simulated"}},
		{"creations fail for a while", func(r *record) {
			each(r, 5, 7, func(c *creation) { c.created = false; r.reported-- })
			r.links = &loadtest.Verdict{Figures: loadtest.Figures{Sent: 3000, Acknowledged: 2600, Refused: 400}}
		}, []string{measure.NoFailedCreation}},
		{"creations fail after they have taken random codes", func(r *record) {
			each(r, 5, 7, func(c *creation) { c.created = false })
		}, nil},
		{"a code is reported twice for each failed creation", func(r *record) {
			each(r, 5, 7, func(c *creation) { c.created = false; r.reported++ })
		}, []string{"random codes reported"}},
		{"keys from batches after the fallback took over", func(r *record) {
			each(r, 5, 7, func(c *creation) { c.number = 7; r.reported-- })
		}, []string{takeover}},
		{"no fallback on one server", func(r *record) {
			for i := range r.creations[0] {
				if c := &r.creations[0][i]; c.number >= r.after.reserved {
					c.created, c.number = false, 0
					r.reported--
				}
			}
			r.atKill.each[0].keys = 400
		}, []string{"local keys last as simulated", takeover}},
		{"breaker stays closed", func(r *record) {
			r.looks[1].Value = look{open: 3, closed: 1}
		}, []string{"breakers open and close"}},
		{"breaker stays open", func(r *record) {
			r.looks[2].Value = look{open: 1, closed: 3}
		}, []string{"breakers open and close"}},
		{"no worker after the outage", func(r *record) {
			r.after.epoch = 1
			each(r, 8, 99, func(c *creation) {
				if c.number < r.after.reserved {
					c.number = 1e9
					r.reported++
				}
			})
		}, []string{recovers, "recovery time", "new epoch", "no key of the lost pool used"}},
		{"slow recovery", func(r *record) {
			each(r, 8, 14, func(c *creation) {
				if c.number < r.after.reserved {
					c.number = 1e9
					r.reported++
				}
			})
		}, []string{"recovery time"}},
		{"availability of Redis observed late", func(r *record) { r.back = r.started.Add(4 * time.Second) }, nil},
		{"two new epochs", func(r *record) { r.after.epoch++ }, []string{"new epoch"}},
		{"key of the lost pool used", func(r *record) {
			r.creations[1][len(r.creations[1])-1].number = 7
		}, []string{"no key of the lost pool used"}},
		{"random codes not reported", func(r *record) { r.reported = 0 }, []string{"random codes reported"}},
		{"run ended early", func(r *record) { *r = record{plan: r.plan} }, nil},
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

// In the simulator too, the local keys of a server last until its batches are used up. Each server creates 50 links
// per second, and Redis is killed after 3 s of load, when half of the second batch is used. The other half and the
// spare batch are left, which are 150 keys.
func TestSimulatedServersCreateLinksUntilTheirBatchesAreUsed(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000_000, 0)
	r := &record{plan: plan{servers: 20, batch: 100, rate: 1000}, killed: start.Add(3 * time.Second), started: start.Add(10 * time.Second)}
	for i := range r.servers {
		var creations []creation
		for n := range 1000 {
			creations = append(creations, creation{at: start.Add(time.Duration(20*n+i) * time.Millisecond)})
		}
		r.creations = append(r.creations, creations)
	}
	if err := r.simulate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.simulated.Seconds(); got < 2.95 || got > 3.05 {
		t.Errorf("the simulated local keys last %v s, want 3 s", got)
	}
}

func TestShowAddsChartsOnlyForCompleteRun(t *testing.T) {
	t.Parallel()
	var e report.Experiment
	show(sound(), &e)
	if len(e.Charts) != 2 || len(e.Tables) != 1 || len(e.Settings) == 0 {
		t.Errorf("the report has %d charts, %d tables and %d settings, want 2, 1 and more than 0", len(e.Charts), len(e.Tables), len(e.Settings))
	}
	e = report.Experiment{}
	show(&record{}, &e) // a run that ended immediately
	if len(e.Charts) != 0 {
		t.Errorf("the report of an empty run has %d charts, want 0", len(e.Charts))
	}
}
