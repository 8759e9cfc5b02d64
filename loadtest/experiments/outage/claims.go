package outage

import (
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// The bounds.
const (
	localWithin    = 0.05            // of the predicted time
	recoverWithin  = 5 * time.Second // the worker, each breaker and each server try again once a second
	reportedWithin = 0.001           // of the random keys
)

// The names of claims that controls refute.
const (
	takeover = "fallback takes over"
	recovers = "back to batches"
)

type claim = experiment.Claim[record]

func claims() []claim {
	return slices.Concat([]claim{
		timed("local keys last", "Without Redis the local keys last as long as their number divided by the rate.", func(r *record) experiment.Verdict {
			predicted, observed := r.localKeys()
			return experiment.Within(mean(predicted), mean(observed), localWithin)
		}),
		timed("a batch each", "Without Redis the local keys last at least as long as one batch of each server does at this rate.", func(r *record) experiment.Verdict {
			_, observed := r.localKeys()
			least, lasted := float64(r.servers*r.batch)/r.rate, mean(observed)
			return experiment.AtLeast(least, lasted, "the local keys lasted %.2f s; %d batches of %d keys last %.2f s", lasted, r.servers, r.batch, least)
		}),
		counted(takeover, "creations", "Once the local keys of a server are used up, the fallback serves every creation until Redis is back.", func(r *record) experiment.Verdict {
			turned, due, served := 0, 0, 0
			for _, s := range r.each() {
				due, served = due+s.due, served+s.served
				if s.turned {
					turned++
				}
			}
			return experiment.Holds(turned == r.servers && due > 0 && due == served, "%d of %d servers used up their local keys; of %d creations that were due then, "+
				"the fallback served %d", turned, r.servers, due, served).Figures(float64(due), float64(served))
		}),
		counted("breakers", "servers", "The circuit breaker of every server opens while Redis is down and is closed at the end.", func(r *record) experiment.Verdict {
			open, closed := r.breakers()
			return experiment.Holds(open == r.servers && closed == r.servers, "of %d breakers %d were open at a time and %d were closed at the end",
				r.servers, open, closed).Figures(float64(r.servers), float64(open))
		}),
		counted(recovers, "", "When Redis is back, every server takes its keys from batches again.", func(r *record) experiment.Verdict {
			_, all := r.recovery()
			return experiment.Holds(all, "the codes of the last links of all servers come from batches: %t", all)
		}),
		timed("recovery time", "Within 5 s of Redis being back, every server takes its keys from batches.", func(r *record) experiment.Verdict {
			took, all := r.recovery()
			return experiment.Holds(all && took <= recoverWithin, "the last server needed %.1f s; all did: %t", took.Seconds(), all).
				Figures(recoverWithin.Seconds(), took.Seconds())
		}),
		counted("new epoch", "epochs", "Redis lost the pool, so exactly one new epoch begins.", func(r *record) experiment.Verdict {
			return experiment.Holds(r.after.epoch == r.before.epoch+1, "the epoch was %d and is now %d", r.before.epoch, r.after.epoch).
				Figures(1, float64(r.after.epoch-r.before.epoch))
		}),
		counted("no lost key handed out", "keys", "No key that the lost pool may have held is handed out afterwards.", func(r *record) experiment.Verdict {
			fresh, stale := 0, 0
			for _, s := range r.each() {
				fresh, stale = fresh+s.fresh, stale+s.stale
			}
			return experiment.Holds(fresh > 0 && stale == 0, "of %d keys that came from batches after the outage %d were reserved before its end", fresh+stale, stale).
				Figures(0, float64(stale))
		}),
		counted("random keys reported", "keys", "The servers report as many random keys as the codes show.", func(r *record) experiment.Verdict {
			random := 0
			for _, s := range r.each() {
				random += s.random
			}
			return experiment.Within(float64(random), r.reported, reportedWithin)
		}),
	}, measure.Accounts("No creation fails.", func(r *record) *loadtest.Verdict { return r.links }))
}

// counted is a correctness claim about a whole run.
func counted(name, unit, text string, judge func(*record) experiment.Verdict) claim {
	return claim{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: func(r *record) experiment.Verdict {
		if !r.whole {
			return experiment.Verdict{}
		}
		return judge(r)
	}}
}

// timed is a claim on a time in seconds about a whole run. A small run does not judge it.
func timed(name, text string, judge func(*record) experiment.Verdict) claim {
	c := counted(name, "s", text, func(r *record) experiment.Verdict {
		if r.small {
			return experiment.NotJudged("a run at a small scale does not judge times")
		}
		return judge(r)
	})
	c.Kind = report.Speed
	return c
}
