package outage

import (
	"time"

	"keypool/loadtest/measure"
)

// grace is how much later than expected a server may turn to its fallback before its creations
// count: requests overtake one another.
const grace = 500 * time.Millisecond

// creation is one creation as its client saw it.
type creation struct {
	at      time.Time // of the intent
	created bool      // it was acknowledged
	number  int64     // of its code
}

// random reports whether the code was drawn at random. A random code whose number was reserved
// is rarer than one in 100,000.
func (c creation) random(l ledger) bool { return c.created && c.number >= l.reserved }

// server is what one server did, by its creations.
type server struct {
	held   int64         // local keys when Redis was killed: those reported right after, and those taken in between
	lasted time.Duration // from the kill to the first random code, or else to the restart of Redis
	random int           // random codes, in the whole run

	// turned says that the server turned to its fallback while Redis was down. It goes by the first random
	// code and not by the prediction, and servers may recover before this process sees that Redis answers,
	// so a slow machine does not matter.
	turned       bool
	due, served  int       // creations from then on until Redis was started again; those of them with a random code
	fresh, stale int       // keys from a batch after Redis was back: reserved after Redis was lost, and before
	batches      time.Time // since then all links have keys from batches, the zero time when the last code is random
}

// each derives what every server did.
func (r *record) each() []server {
	all := make([]server, r.servers)
	for i := range all {
		all[i] = r.derive(r.atKill.each[i], r.creations[i])
	}
	return all
}

func (r *record) derive(reported localKeys, creations []creation) server {
	s := server{held: reported.keys, lasted: r.started.Sub(r.killed)}
	for _, c := range creations {
		if c.at.After(r.killed) && !c.at.After(reported.at) {
			s.held++
		}
		switch {
		case c.random(r.after):
			s.random++
			s.batches = time.Time{}
			if c.at.After(r.killed) {
				s.lasted = min(s.lasted, c.at.Sub(r.killed))
			}
		case c.created && s.batches.IsZero():
			s.batches = c.at
		}
	}
	r.afterKeys(&s, creations)
	return s
}

// afterKeys derives what a server did from the moment at which it had no keys left.
func (r *record) afterKeys(s *server, creations []creation) {
	from, until := r.killed.Add(s.lasted+grace), r.started.Add(-grace)
	if s.turned = from.Before(until); !s.turned {
		return
	}
	for _, c := range creations {
		random := c.random(r.after)
		switch {
		case c.at.After(from) && c.at.Before(until):
			s.due++
			if random {
				s.served++
			}
		case !c.created || random || !c.at.After(r.back):
		case c.number < r.lost.reserved:
			s.stale++
		default:
			s.fresh++
		}
	}
}

// localKeys returns for how many seconds after the kill the local keys of each server should last, and
// did.
func (r *record) localKeys() (predicted, observed measure.Series) {
	for _, s := range r.each() {
		predicted = append(predicted, float64(s.held)*float64(r.servers)/r.rate)
		observed = append(observed, s.lasted.Seconds())
	}
	return predicted, observed
}

// breakers counts how many breakers were open at a time, and how many were closed at the end.
func (r *record) breakers() (open, closed int) {
	for _, l := range r.looks {
		if l.Err == nil {
			open, closed = max(open, l.Value.open), l.Value.closed
		}
	}
	return open, closed
}

// recovery is how long after Redis was back the last server began to take all its keys from batches.
// all is false when a server did not until the load ended.
func (r *record) recovery() (took time.Duration, all bool) {
	all = true
	for _, s := range r.each() {
		took, all = max(took, s.batches.Sub(r.back)), all && !s.batches.IsZero()
	}
	return took, all
}

func mean(s measure.Series) (m float64) {
	for _, v := range s {
		m += v / float64(len(s))
	}
	return m
}
