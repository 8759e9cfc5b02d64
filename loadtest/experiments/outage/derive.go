package outage

import (
	"time"
)

// grace is how much later than expected a server may turn to its fallback before its creations
// count: requests overtake one another.
const grace = 500 * time.Millisecond

// predicted is how long the local keys of each server last after the kill.
func (r *record) predicted() []time.Duration {
	all := make([]time.Duration, r.servers)
	for i := range all {
		all[i] = time.Duration(float64(r.heldAtKill(i)) / r.share() * float64(time.Second))
	}
	return all
}

// heldAtKill is how many keys a server held when Redis was killed: what it reported right after, and
// what was taken in between.
func (r *record) heldAtKill(server int) int64 {
	reported := r.atKill.each[server]
	held := reported.keys
	for _, c := range r.creations[server] {
		if c.at.After(r.killed) && !c.at.After(reported.at) {
			held++
		}
	}
	return held
}

// lasted is how long after the kill the first random code of each server came; for a server without
// one, until Redis was started again.
func (r *record) lasted() []time.Duration {
	all := make([]time.Duration, r.servers)
	for i, creations := range r.creations {
		all[i] = r.started.Sub(r.killed)
		for _, c := range creations {
			if c.at.After(r.killed) && c.random(r.after) {
				all[i] = min(all[i], c.at.Sub(r.killed))
				break
			}
		}
	}
	return all
}

// takenOver counts the servers that turned to their fallback while Redis was down, the creations
// that were due on them from then on, and those of them that got a random code. It goes by the first
// random code and not by the prediction, and servers may recover before this process sees that Redis
// answers, so a slow machine does not matter.
func (r *record) takenOver() (turned, due, random int) {
	for i, lasted := range r.lasted() {
		from, until := r.killed.Add(lasted+grace), r.started.Add(-grace)
		if !from.Before(until) {
			continue
		}
		turned++
		for _, c := range r.creations[i] {
			if !c.at.After(from) || !c.at.Before(until) {
				continue
			}
			due++
			if c.random(r.after) {
				random++
			}
		}
	}
	return turned, due, random
}

// breakers counts how many breakers were open at a time, and how many were closed at the end.
func (r *record) breakers() (open, closed int) {
	for _, l := range r.looks {
		if l.Err == nil {
			open, closed = max(open, l.Value.open+l.Value.halfOpen), l.Value.closed
		}
	}
	return open, closed
}

// recovery is how long after Redis was back the last server began to take all its keys from batches.
// all is false when a server did not until the load ended.
func (r *record) recovery() (took time.Duration, all bool) {
	latest, all := r.back, true
	for _, creations := range r.creations {
		began := r.ended
		for i := len(creations) - 1; i >= 0 && !creations[i].random(r.after); i-- {
			if creations[i].created {
				began = creations[i].at
			}
		}
		all = all && began.Before(r.ended)
		if began.After(latest) {
			latest = began
		}
	}
	return latest.Sub(r.back), all
}

// freshness counts the keys that servers took from a batch after Redis was back: fresh ones were
// reserved after Redis was lost, stale ones before. Only servers count that had turned to
// their fallback.
func (r *record) freshness() (fresh, stale int) {
	for i, lasted := range r.lasted() {
		if lasted+grace > r.started.Sub(r.killed) {
			continue
		}
		for _, c := range r.creations[i] {
			switch {
			case !c.created || c.random(r.after) || !c.at.After(r.back):
			case c.number < r.lost.reserved:
				stale++
			default:
				fresh++
			}
		}
	}
	return fresh, stale
}

// randomCodes is how many links have a random code.
func (r *record) randomCodes() (n int) {
	for _, creations := range r.creations {
		for _, c := range creations {
			if c.random(r.after) {
				n++
			}
		}
	}
	return n
}

func mean(all []time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(1, len(all)))
}
