package outage

import (
	"time"

	"keypool/loadtest/measure"
)

// grace is the length of two margins: one begins at the first random code, and the other ends at the restart
// of Redis. The claim about the fallback ignores the creations within these margins, because requests that are
// sent close to these events can overtake one another.
const grace = 500 * time.Millisecond

// creation is one creation as observed by its client.
type creation struct {
	at      time.Time // when the client recorded its intent to send the request
	created bool      // whether the service acknowledged the creation
	number  int64     // number behind the code
}

// random reports whether the fallback made the code. It decides by the number of the code: a number that is not
// reserved belongs to a random code. Fewer than one random code in 100,000 has a reserved number; for such a code,
// the result is wrong.
func (c creation) random(l ledger) bool { return c.created && c.number >= l.reserved }

// server describes what one server did, as derived from its creations.
type server struct {
	// held is the number of local keys when Redis was killed: the keys that the server reported right after the
	// kill, plus the keys that it used between the kill and the report.
	held   int64
	lasted time.Duration // time from the kill to the first random code or, if there is none, to the restart of Redis
	random int           // number of links with random codes in the whole run
	failed int           // number of creations that failed in the whole run

	// usedUp reports whether the local keys were used up early enough for the claim about the fallback: the time from the first
	// random code to the restart of Redis is longer than both margins together.
	usedUp bool
	// due counts the links that were created between the two margins and therefore need the fallback. served counts the
	// links among them that have a random code.
	due, served int
	// fresh and stale count the keys from batches that the server used after the outage. A stale key was reserved before
	// Redis started again. A fresh key was reserved later.
	fresh, stale int
	batches      time.Time // when the server began to take all keys from batches; zero if its last code is random
}

// each returns what each server did.
func (r *record) each() []server {
	all := make([]server, r.servers)
	for i := range all {
		all[i] = r.derive(r.atKill.each[i], r.creations[i])
	}
	return all
}

// derive returns what one server did. The server reported the given local keys right after Redis was killed.
func (r *record) derive(reported localKeys, creations []creation) server {
	s := server{held: reported.keys, lasted: r.started.Sub(r.killed)}
	for _, c := range creations {
		if c.at.After(r.killed) && !c.at.After(reported.at) {
			s.held++
		}
		switch {
		case !c.created:
			s.failed++
		case c.random(r.after):
			s.random++
			s.batches = time.Time{}
			if c.at.After(r.killed) {
				s.lasted = min(s.lasted, c.at.Sub(r.killed))
			}
		case s.batches.IsZero():
			s.batches = c.at
		}
	}
	r.afterKeys(&s, creations)
	return s
}

// afterKeys adds to s what the server did after it had used up its local keys.
func (r *record) afterKeys(s *server, creations []creation) {
	from, until := r.killed.Add(s.lasted+grace), r.started.Add(-grace)
	if s.usedUp = from.Before(until); !s.usedUp {
		return
	}
	for _, c := range creations {
		random := c.random(r.after)
		switch {
		case !c.created: // a claim about availability counts failed creations
		case c.at.After(from) && c.at.Before(until):
			s.due++
			if random {
				s.served++
			}
		case random || !c.at.After(r.back):
		case c.number < r.lost.reserved:
			s.stale++
		default:
			s.fresh++
		}
	}
}

// localKeys returns, for each server, how many seconds its local keys should last after the kill, and how many
// seconds they lasted.
func (r *record) localKeys() (predicted, observed measure.Series) {
	for _, s := range r.each() {
		predicted = append(predicted, float64(s.held)*float64(r.servers)/r.rate)
		observed = append(observed, s.lasted.Seconds())
	}
	return predicted, observed
}

// breakers returns the greatest number of breakers that were open at the same time, and the number of breakers
// that were closed at the end.
func (r *record) breakers() (open, closed int) {
	for _, l := range r.looks {
		if l.Err == nil {
			open, closed = max(open, l.Value.open), l.Value.closed
		}
	}
	return open, closed
}

// recovery returns the number of servers that took all their keys from batches at the end of the load. took is
// the time from the moment at which Redis was available again until the last of these servers began to take
// all its keys from batches.
func (r *record) recovery() (took time.Duration, servers int) {
	for _, s := range r.each() {
		if !s.batches.IsZero() {
			took = max(took, s.batches.Sub(r.back))
			servers++
		}
	}
	return took, servers
}

// mean returns the arithmetic mean of s.
func mean(s measure.Series) (m float64) {
	for _, v := range s {
		m += v / float64(len(s))
	}
	return m
}
