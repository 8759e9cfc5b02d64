package refill

import (
	"testing"
	"time"

	"keypool/kgs"
)

// drained makes a switch observe a pool of 1000 keys once a second. In each second, servers take
// the given number of keys. In every fifth second, workers push 5*arrive keys. drained returns the
// first judgement in each state.
func drained(d *DeadMansSwitch, seconds, taken, arrive int64) (states map[State]Judgement) {
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

func TestDeadManSwitchRaisesAlarmOnShortRunway(t *testing.T) {
	t.Parallel()
	d := newTestSwitch()
	d.cfg.RestartBelow, d.cfg.PageBelow = 20, 10 // so low that the alarms about the runway come first
	states := drained(d, 90, 10, 0)
	for state, limit := range map[State]float64{StateRestart: restartRunway, StatePage: pageRunway} {
		j, seen := states[state]
		runway, known := j.Runway()
		if !seen || !known || runway >= limit || runway < limit-10 {
			t.Errorf("state %s began at %+v, want a runway just below %v s", state, j, limit)
		}
	}
}

// A short runway causes no alarm if keys arrive, even if too few arrive. If the pool is full after a
// burst, a short runway causes no alarm either.
func TestDeadManSwitchIgnoresShortRunwayWhileKeysArrive(t *testing.T) {
	t.Parallel()
	for name, arrive := range map[string]int64{"fewer keys arrive than are taken": 2, "as many keys arrive as are taken": 10} {
		d := newTestSwitch()
		d.cfg.RestartBelow, d.cfg.PageBelow = 20, 10
		for state, j := range drained(d, 95, 10, arrive) {
			if state != StateOK {
				t.Errorf("%s: the switch entered the state %s at %+v, want only the state ok", name, state, j)
			}
		}
	}
	d := newTestSwitch()
	now := time.Now()
	pool := kgs.PoolStatus{Keys: 1000}
	for i := range 60 { // servers take 1,000 keys a second for 30 s, and a worker pushes as many keys
		now = now.Add(time.Second)
		if i < 30 {
			pool.Taken += 1000
		}
		d.observe(now, observed(pool), true)
		if got := d.Judgement(); got.State != StateOK {
			t.Fatalf("the state is %s %d s after a burst, at %+v; want ok", got.State, i-30, got)
		}
	}
}

func TestDeadManSwitchMeasuresRateOfAllServers(t *testing.T) {
	t.Parallel()
	d := newTestSwitch()
	now := time.Now()
	look := func(pool kgs.PoolStatus) Judgement {
		now = now.Add(time.Second)
		d.observe(now, observed(pool), true)
		return d.Judgement()
	}
	if _, known := d.Judgement().Runway(); known {
		t.Error("the runway is known before the first look")
	}
	// Other servers took a million keys before this process started.
	if j := look(kgs.PoolStatus{Epoch: 1, Keys: 1000, Taken: 1_000_000}); j.Rate != 0 {
		t.Errorf("the rate is %v after one look, want 0", j.Rate)
	}
	for i := range int64(60) {
		look(kgs.PoolStatus{Epoch: 1, Keys: 1000, Taken: 1_000_000 + 10*(i+1)})
	}
	runway, known := d.Judgement().Runway()
	if rate := d.Judgement().Rate; rate < 9.9 || rate > 10.1 || !known || runway < 99 || runway > 101 {
		t.Errorf("the rate is %v and the runway is %v, want 10 keys a second and 100 s", rate, runway)
	}
	if j := look(kgs.PoolStatus{Epoch: 2, Keys: 500}); j.Rate != 0 {
		t.Errorf("the rate is %v in a new epoch in which no key was taken, want 0", j.Rate)
	}
	// Taken is 0 if it counts only the keys that creations used, and all keys are still in local batches.
	for _, taken := range []int64{500, 0} {
		if runway, known := look(kgs.PoolStatus{Epoch: 2, Pushed: 500, Taken: taken}).Runway(); runway != 0 || !known {
			t.Errorf("creations used %d keys of a pool that is empty now: Runway() = %v, %v, want 0, true", taken, runway, known)
		}
	}
	if runway, known := look(kgs.PoolStatus{Epoch: 3}).Runway(); known {
		t.Errorf("Runway() of a pool that a worker has just opened = %v, want unknown", runway)
	}
	var paged Judgement
	for range 10 {
		paged = look(kgs.PoolStatus{Epoch: 3})
	}
	if runway, known := paged.Runway(); runway != 0 || !known || paged.State != StatePage {
		t.Errorf("a pool without a key for 10 s: state %s, Runway() = %v, %v, want page, 0, true", paged.State, runway, known)
	}
	now = now.Add(time.Second)
	d.observe(now, Observation{}, false)
	if _, known := d.Judgement().Runway(); known {
		t.Error("the runway of a pool that cannot be read is known")
	}
}

// takes makes a switch observe a pool once a second. In second i, servers take taken(i) keys. takes returns the seconds in
// which the runway was known.
func takes(d *DeadMansSwitch, seconds int, taken func(second int) int64) (known []int) {
	now, pool := time.Now(), kgs.PoolStatus{Keys: 1_000_000}
	for i := range seconds {
		d.observe(now, observed(pool), true)
		if _, ok := d.Judgement().Runway(); ok {
			known = append(known, i)
		}
		now = now.Add(time.Second)
		pool.Taken += taken(i)
	}
	return known
}

// If the switch observes each key (EachKey), the runway becomes unknown soon after the last key, even after a high load.
// During a slow load, the runway is known all the time.
func TestRunwayBecomesUnknownSoonAfterLastKeyIsTaken(t *testing.T) {
	t.Parallel()
	const last = 59 // the second in which the last key is taken
	busy := func(i int) int64 {
		if i > last {
			return 0
		}
		return 10_000
	}
	d := newTestSwitch()
	d.cfg.EachKey = true
	if known := takes(d, 300, busy); len(known) == 0 || known[len(known)-1] > last+30 {
		t.Errorf("after a load that ends in second %d, the runway is known in the seconds %v, want until second %d", last, known, last+30)
	}
	if rate := d.Judgement().Rate; rate != 0 {
		t.Errorf("the rate is %v after the load, want 0", rate)
	}

	slow := func(i int) int64 { // a key every 10 s
		if i%10 > 0 {
			return 0
		}
		return 1
	}
	d = newTestSwitch()
	d.cfg.EachKey = true
	if known := takes(d, 600, slow); len(known) != 599 { // unknown only at the first look
		t.Errorf("with a key every 10 s, the runway is known in %d seconds of 600, want 599: %v", len(known), known)
	}
}

// If servers take whole batches, the runway of a slow load stays known between two batches.
func TestRunwayIsKnownBetweenBatches(t *testing.T) {
	t.Parallel()
	batch := func(i int) int64 { // 2 keys a second
		if i%50 > 0 {
			return 0
		}
		return 100
	}
	if known := takes(newTestSwitch(), 600, batch); len(known) != 599 {
		t.Errorf("with a batch every 50 s, the runway is known in %d seconds of 600, want 599: %v", len(known), known)
	}
}
