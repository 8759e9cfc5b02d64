package scenario

import (
	"time"
)

// What is allowed.
const (
	emptyWithin  = 0.02            // of the time that was foretold
	signalWithin = 3 * time.Second // for the switch to look, and to be heard
	switchLooks  = time.Second     // from one look of the switch to its next

	refillRate = 1.5e6           // keys per second that a worker brings at the least
	backWithin = 5 * time.Second // for a worker to start, and besides what refillRate takes
)

// The switch also speaks when nothing has arrived for so long, of a pool that lasts less than
// so many seconds: see its documentation.
const (
	stillFor      = 9 * time.Second // ten, but for the second between two looks
	restartRunway = 60.0
	pageRunway    = 30.0
)

// The claims of the scenario besides the accounts.
const (
	claimEmpty   = "exhaustion foretold"
	claimRestart = "restart signalled"
	claimPage    = "page signalled"
	claimBack    = "pool refilled"
	claimClear   = "all-clear told"
)

func (d *drainage) enterClaims() {
	d.Claim(claimEmpty, "From the first tenth of the drain it can be foretold within 2 % when the pool is empty.", "s")
	d.Claim(claimRestart, "When a fifth of the pool is left, it is signalled within 3 s that the worker needs a restart.", "s")
	d.Claim(claimPage, "When a tenth of the pool is left, a human is paged within 3 s.", "s")
	d.Claim(claimBack, "When the worker is started again, the pool is full again within 5 s, and a second for every 1.5 million keys.", "s")
	d.Claim(claimClear, "It is told within 3 s of that all is well again.", "s")
	d.claimAccounts()
}

// refillBound is what a worker may take from its start to a full pool.
func refillBound(capacity int64) time.Duration {
	return backWithin + time.Duration(float64(capacity)/refillRate*float64(time.Second))
}

// inSeconds is d to the millisecond: what is finer means nothing.
func inSeconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// judgeRecord judges by the record alone. What the record does not reach stays open.
func (d *drainage) judgeRecord() {
	r := &d.record
	if len(r.seen) == 0 || r.started.IsZero() {
		return
	}
	d.judgeEmpty()
	d.judgeSignal(claimRestart, 0.2, restartRunway, d.restartStates()...)
	d.judgeSignal(claimPage, 0.1, pageRunway, "page")
	d.judgeBack()
	d.judgeClear()
	// With a rate that the machine could not hold, nothing was foretold.
	d.Excuse(claimEmpty, r.others)
	// With a switch that looked late, it was below both levels at once.
	d.Excuse(claimRestart, r.others)
}

// last is until when the record goes.
func (r *drainRecord) last() time.Time { return r.seen[len(r.seen)-1].at }

func (d *drainage) judgeEmpty() {
	r := &d.record
	if r.unsteady {
		d.Judge(claimEmpty, false, "the pool did not go down steadily enough to foretell anything")
	}
	if r.foretold.slope == 0 {
		return
	}
	foretold := r.foretold.empty().Sub(r.started).Seconds()
	if !r.empty.IsZero() {
		d.Within(claimEmpty, foretold, r.empty.Sub(r.started).Seconds(), emptyWithin)
		return
	}
	if lasted := r.last().Sub(r.started).Seconds(); lasted > foretold*(1+emptyWithin) {
		d.Judge(claimEmpty, false, "it was foretold for %.1f s, and after %.1f s the pool still held %d keys",
			foretold, lasted, r.seen[len(r.seen)-1].keys)
	}
}

// restartStates are the signals that count as the call for a restart. A page counts only when
// the switch, which says one thing at each look, may have had no look in which it was to say
// the other: the pool was below the next level, or the page was due by another rule, too soon.
func (d *drainage) restartStates() []string {
	r := &d.record
	seen := since(r.seen, r.started)
	fifth, known := below(seen, 0.2*float64(d.capacity))
	tenth, emptier := below(seen, 0.1*float64(d.capacity))
	page, paged := first(r.signals, r.started, "page")
	if known && (emptier && tenth.Sub(fifth) < switchLooks || paged && page.at.Sub(fifth) < switchLooks) {
		return []string{"restart", "page"}
	}
	return []string{"restart"}
}

// judgeSignal looks for the first signal of one of the states after the pool fell below
// share of its capacity.
func (d *drainage) judgeSignal(name string, share, runway float64, states ...string) {
	r := &d.record
	crossed, ok := below(since(r.seen, r.started), share*float64(d.capacity))
	if !ok {
		return
	}
	signal, heard := first(r.signals, r.started, states...)
	switch {
	case heard && float64(keysAfter(r.seen, signal.at)) >= share*float64(d.capacity):
		d.judgeEarly(name, signal, runway)
	case heard: // perhaps before we looked ourselves
		d.AtMost(name, signalWithin.Seconds(), max(0, inSeconds(signal.at.Sub(crossed))))
	case r.last().Sub(crossed) > signalWithin:
		d.Judge(name, false, "no signal, %.1f s after the pool fell below %.0f keys", r.last().Sub(crossed).Seconds(), share*float64(d.capacity))
	}
}

// judgeEarly allows a signal before its level is reached when the pool would not have lasted.
func (d *drainage) judgeEarly(name string, signal told, runway float64) {
	r := &d.record
	arrived := r.started
	if t, ok := below(since(r.seen, r.started), 0.9*float64(d.capacity)); ok {
		arrived = t
	}
	keys := keysAt(r.seen, signal.at)
	lasts := float64(keys) / r.foretold.slope
	d.Judge(name, signal.at.Sub(arrived) >= stillFor && lasts < runway,
		"it came with %d keys left, %.1f s after the pool was last nearly full; it lasted %.0f s more, and below %.0f s, with nothing arriving, "+
			"the switch does not wait for the level", keys, signal.at.Sub(arrived).Seconds(), lasts, runway)
}

func (d *drainage) judgeBack() {
	r := &d.record
	limit := refillBound(d.capacity)
	switch {
	case r.back.IsZero():
	case !r.full.IsZero():
		d.AtMost(claimBack, inSeconds(limit), inSeconds(r.full.Sub(r.back)))
	case r.last().Sub(r.back) > limit:
		d.Judge(claimBack, false, "%.1f s after its start the pool held %d keys", r.last().Sub(r.back).Seconds(), r.seen[len(r.seen)-1].keys)
	}
}

func (d *drainage) judgeClear() {
	r := &d.record
	if r.full.IsZero() {
		return
	}
	signal, heard := first(r.signals, r.back, "ok")
	switch {
	case heard: // it may be told as soon as the pool is above the levels
		d.AtMost(claimClear, signalWithin.Seconds(), max(0, inSeconds(signal.at.Sub(r.full))))
	case r.last().Sub(r.full) > signalWithin:
		d.Judge(claimClear, false, "nothing was heard for %.1f s", r.last().Sub(r.full).Seconds())
	}
}
