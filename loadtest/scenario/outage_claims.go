package scenario

import (
	"fmt"
	"time"
)

// What is allowed.
const (
	localWithin   = 0.05            // of the time that is predicted
	recoverWithin = 5 * time.Second // the worker, each breaker and each local batch try again once a second
	toldWithin    = 0.001           // of the random keys
	// grace is how much later than predicted a server may turn to its fallback before its
	// creations count.
	grace = 500 * time.Millisecond
)

// The claims of the scenario besides the accounts.
const (
	claimLocal    = "local keys last"
	claimFloor    = "a batch each"
	claimTakeover = "fallback takes over"
	claimBreakers = "breakers"
	claimRecovery = "back to batches"
	claimEpoch    = "new epoch"
	claimFresh    = "no lost key given"
	claimSources  = "sources told"
)

func (o *outageRun) enterClaims() {
	o.Summary = fmt.Sprintf("%d servers make %.0f links a second in all, each from a local batch of %d keys and a spare one. "+
		"Then Redis is killed with SIGKILL: the local keys have to carry the servers, then the random fallback, and nobody who makes "+
		"a link may notice. Redis comes back empty, so the worker has to begin a new epoch.", o.servers, o.rate, o.batch)
	o.Settings = map[string]string{
		"servers": fmt.Sprint(o.servers), "creations": fmt.Sprintf("%.0f/s in all, round-robin", o.rate),
		"KGS_BATCH_MIN, KGS_BATCH_MAX": fmt.Sprint(o.batch), "FALLBACK": "random", "store": "one PostgreSQL, synchronous_commit=on",
		"Redis": "keeps nothing on disk",
	}
	o.Notes = []string{
		"How long local keys last is predicted, for each server, from the keys that it held when Redis was killed and its share of the rate. " +
			"They were asked for right after the kill, when nothing could reach the servers any more, and what was taken in between was added.",
		"Where a code came from is told by the code itself: the harness has the secret of the permutation, and a number that was never " +
			"reserved is that of a random code.",
	}
	o.Claim(claimLocal, "When Redis is gone, local keys last as long as their number divided by the rate.", "s")
	o.Claim(claimFloor, fmt.Sprintf("That is %d batches of %d keys at the least, at %.0f a second.", o.servers, o.batch, o.rate), "s")
	o.Claim(claimTakeover, "Once its local keys are gone, the fallback makes every link of a server until Redis is back.", "creations")
	o.Claim(claimBreakers, "Every server's circuit breaker opens while Redis is away, and is closed in the end.", "servers")
	o.Claim(claimRecovery, fmt.Sprintf("When Redis is back, every server makes its links from a batch again within %.0f s.", recoverWithin.Seconds()), "s")
	o.Claim(claimEpoch, "Redis lost the pool, so just one new epoch begins.", "epochs")
	o.Claim(claimFresh, "No key that the lost pool may have held is given to anybody afterwards.", "keys")
	o.Claim(claimSources, "The servers tell as many random keys as the codes show.", "keys")
	o.claimAccounts()
}

// judgeRecord judges by the record alone.
func (o *outageRun) judgeRecord() {
	r := &o.record
	predicted, observed := mean(o.predicted()), mean(o.lasted())
	o.Within(claimLocal, predicted.Seconds(), observed.Seconds(), localWithin)
	o.AtLeast(claimFloor, float64(o.servers*o.batch)/o.rate, observed.Seconds())
	due, made := o.takenOver()
	o.Figures(claimTakeover, float64(due), float64(made))
	o.Judge(claimTakeover, due > 0 && due == made, "of %d creations that were due then, the fallback made %d", due, made)
	o.judgeBreakers()
	took, all := o.recovery()
	reached := "not all were at it"
	if all {
		reached = "the last server was at it"
	}
	o.Figures(claimRecovery, recoverWithin.Seconds(), took.Seconds())
	o.Judge(claimRecovery, all && took <= recoverWithin, "%.1f s after Redis was back, %s; at most %.0f s are allowed",
		took.Seconds(), reached, recoverWithin.Seconds())
	o.Figures(claimEpoch, 1, float64(r.after.epoch-r.before.epoch))
	o.Judge(claimEpoch, r.after.epoch == r.before.epoch+1, "it was epoch %d, then %d", r.before.epoch, r.after.epoch)
	fresh, stale := o.freshness()
	o.Figures(claimFresh, 0, float64(stale))
	o.Judge(claimFresh, fresh > 0 && stale == 0, "of %d keys that were taken from a batch after the outage, %d had been reserved before its end", fresh+stale, stale)
	o.Within(claimSources, float64(o.randoms()), r.told, toldWithin)
}

// share is the rate of one server.
func (o *outageRun) share() float64 { return o.rate / float64(o.servers) }

// predicted is how long the local keys of each server last from the kill on.
func (o *outageRun) predicted() []time.Duration {
	all := make([]time.Duration, o.servers)
	for i := range all {
		all[i] = time.Duration(float64(o.heldAtKill(i)) / o.share() * float64(time.Second))
	}
	return all
}

// heldAtKill is how many keys a server held when Redis was killed: what it said right after,
// and what was taken until then.
func (o *outageRun) heldAtKill(server int) int64 {
	said := o.record.atKill.Each[server]
	held := said.Keys
	for _, c := range o.record.creations[server] {
		if c.at.After(o.record.killed) && !c.at.After(said.At) {
			held++
		}
	}
	return held
}

// lasted is how long after the kill the first link of each server came from its fallback;
// until Redis was back where none did.
func (o *outageRun) lasted() []time.Duration {
	r := &o.record
	all := make([]time.Duration, o.servers)
	for i, creations := range r.creations {
		all[i] = r.back.Sub(r.killed)
		for _, c := range creations {
			if c.at.After(r.killed) && c.random(r.after) {
				all[i] = min(all[i], c.at.Sub(r.killed))
				break
			}
		}
	}
	return all
}

// takenOver counts the creations that were due when a server had used up its local keys
// and Redis was away, and those among them that the fallback made.
func (o *outageRun) takenOver() (due, made int) {
	r := &o.record
	for i, lasts := range o.predicted() {
		from := r.killed.Add(lasts + grace)
		for _, c := range r.creations[i] {
			if c.at.After(from) && c.at.Before(r.back.Add(-grace)) {
				due++
				if c.random(r.after) {
					made++
				}
			}
		}
	}
	return due, made
}

// judgeBreakers goes by what the servers said of themselves.
func (o *outageRun) judgeBreakers() {
	opened, last := 0, fleetLook{}
	for _, l := range o.record.looks {
		if l.Err == nil {
			opened, last = max(opened, l.Value.Open+l.Value.HalfOpen), l.Value
		}
	}
	o.Figures(claimBreakers, float64(o.servers), float64(opened))
	o.Judge(claimBreakers, opened == o.servers && last.Closed == o.servers, "of %d breakers, %d were open at a time, and %d closed in the end",
		o.servers, opened, last.Closed)
}

// recovery is how long after Redis was back the last server began to take its keys from a
// batch and from nowhere else; not all say that one never did, until the load ended.
func (o *outageRun) recovery() (took time.Duration, all bool) {
	r := &o.record
	latest, all := r.back, true
	for _, creations := range r.creations {
		recovered := r.ended
		for i := len(creations) - 1; i >= 0 && !creations[i].random(r.after); i-- {
			if creations[i].made {
				recovered = creations[i].at
			}
		}
		all = all && recovered.Before(r.ended)
		if recovered.After(latest) {
			latest = recovered
		}
	}
	return latest.Sub(r.back), all
}

// freshness counts the keys that a server which had turned to its fallback took from a batch
// after Redis was back, by whether they were reserved after Redis was lost or before.
func (o *outageRun) freshness() (fresh, stale int) {
	r := &o.record
	for i, lasts := range o.lasted() {
		for _, c := range r.creations[i] {
			// Requests overtake one another: just after the first random code there may be one
			// more of the old batch.
			if !c.made || c.random(r.after) || !c.at.After(r.back) || lasts+grace > r.back.Sub(r.killed) {
				continue
			}
			if c.number < r.lost.reserved {
				stale++
			} else {
				fresh++
			}
		}
	}
	return fresh, stale
}

// randoms is how many links have a random code.
func (o *outageRun) randoms() (n int) {
	for _, creations := range o.record.creations {
		for _, c := range creations {
			if c.random(o.record.after) {
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
