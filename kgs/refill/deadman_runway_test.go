package refill

import (
	"testing"
	"time"

	"keypool/kgs"
)

// drained lets a switch observe a pool of 1000 keys once a second. In each second, servers take
// the given number of keys. Every fifth second, workers push five times the number arrive. It
// returns the first judgement in each state.
func drained(d *DeadMan, seconds, taken, arrive int64) (states map[State]Judgement) {
	states = make(map[State]Judgement)
	now := time.Now()
	pool := kgs.PoolStatus{Keys: 1000}
	for i := range seconds {
		now = now.Add(time.Second)
		d.observe(now, observed(pool), true)
		if j := d.Judgement(); states[j.State].Since.IsZero() {
			states[j.State] = j
		}
		if i%5 == 4 {
			pool.Keys, pool.Pushed = pool.Keys+5*arrive, pool.Pushed+5*arrive
		}
		pool.Keys, pool.Taken = pool.Keys-taken, pool.Taken+taken
	}
	return states
}

func TestDeadManAlarmsOnShortRunway(t *testing.T) {
	t.Parallel()
	d := newTestSwitch()
	d.cfg.RestartBelow, d.cfg.PageBelow = 20, 10 // alone, these limits raise an alarm only seconds before the end
	states := drained(d, 90, 10, 0)
	for state, limit := range map[State]float64{StateRestart: restartRunway, StatePage: pageRunway} {
		j, seen := states[state]
		runway, known := j.Runway()
		if !seen || !known || runway >= limit || runway < limit-10 {
			t.Errorf("%s at %+v: want it just below a runway of %v s", state, j, limit)
		}
	}
}

// The switch raises no alarm for a pool that receives keys, however few, or that needs none.
func TestDeadManIgnoresShortRunwayWhileKeysArrive(t *testing.T) {
	t.Parallel()
	for name, arrive := range map[string]int64{"too little arrives": 2, "as much as is taken": 10} {
		d := newTestSwitch()
		d.cfg.RestartBelow, d.cfg.PageBelow = 20, 10
		for state, j := range drained(d, 95, 10, arrive) {
			if state != StateOK {
				t.Errorf("%s: %s at %+v", name, state, j)
			}
		}
	}
	d := newTestSwitch()
	now := time.Now()
	pool := kgs.PoolStatus{Keys: 1000}
	for i := range 60 { // servers take 1,000 keys a second for 30 s, and a worker replaces them
		now = now.Add(time.Second)
		if i < 30 {
			pool.Taken += 1000
		}
		d.observe(now, observed(pool), true)
		if got := d.Judgement(); got.State != StateOK {
			t.Fatalf("%s %d s after a burst, at %+v", got.State, i-30, got)
		}
	}
}

func TestDeadManMeasuresTheRateOfAllServers(t *testing.T) {
	t.Parallel()
	d := newTestSwitch()
	now := time.Now()
	look := func(pool kgs.PoolStatus) Judgement {
		now = now.Add(time.Second)
		d.observe(now, observed(pool), true)
		return d.Judgement()
	}
	if _, known := d.Judgement().Runway(); known {
		t.Error("a runway before the first look")
	}
	// Other servers took a million keys before this process started.
	if j := look(kgs.PoolStatus{Epoch: 1, Keys: 1000, Taken: 1_000_000}); j.Rate != 0 {
		t.Errorf("a rate of %v after one look", j.Rate)
	}
	for i := range int64(60) {
		look(kgs.PoolStatus{Epoch: 1, Keys: 1000, Taken: 1_000_000 + 10*(i+1)})
	}
	runway, known := d.Judgement().Runway()
	if rate := d.Judgement().Rate; rate < 9.9 || rate > 10.1 || !known || runway < 99 || runway > 101 {
		t.Errorf("rate %v, runway %v: want 10 a second of 1000 keys", rate, runway)
	}
	if j := look(kgs.PoolStatus{Epoch: 2, Keys: 500}); j.Rate != 0 {
		t.Errorf("a rate of %v in a new epoch in which no key was taken", j.Rate)
	}
	if runway, known := look(kgs.PoolStatus{Epoch: 2}).Runway(); runway != 0 || !known {
		t.Errorf("runway of an empty pool: %v s, known: %v", runway, known)
	}
	now = now.Add(time.Second)
	d.observe(now, Observation{}, false)
	if _, known := d.Judgement().Runway(); known {
		t.Error("a runway of a pool that cannot be read")
	}
}
