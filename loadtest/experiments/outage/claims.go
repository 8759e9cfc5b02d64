package outage

import (
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// The bounds of the claims.
const (
	localWithin    = 0.05            // greatest difference between the observed and the predicted time, as a share of the predicted time
	recoverWithin  = 5 * time.Second // longest recovery; the worker, each breaker and each server retry once a second
	reportedWithin = 0.001           // greatest difference between the metric of the servers and the number of links with random codes, as a share of this number
)

// Names of claims that must fail in a control.
const (
	takeover = "fallback takes over"
	recovers = "keys come from batches again"
)

type claim = experiment.Claim[record]

// claims returns the claims of outage/redis.
func claims() []claim {
	return slices.Concat([]claim{
		timed("local keys last as predicted", "While Redis is down, a server uses its local keys, which are the keys in its memory. The time until the local keys are used up differs by at most 5 % from the prediction. The prediction is the number of local keys divided by the rate of creations at the server.", func(r *record) experiment.Verdict {
			predicted, observed := r.localKeys()
			return experiment.Within(mean(predicted), mean(observed), localWithin)
		}),
		timed("local keys last as simulated", "While Redis is down, the servers use the keys in their memory. The time until these keys are used up differs by at most 5 % from the time that the simulator (`bin/loadtest simulate`) computes for the same creations.", func(r *record) experiment.Verdict {
			_, observed := r.localKeys()
			return experiment.Within(r.simulated.Seconds(), mean(observed), localWithin)
		}),
		timed("local keys last at least a batch", "While Redis is down, the keys in the memory of a server last, on average, at least a minimum time. The minimum time is the size of one batch divided by the rate of creations at one server.", func(r *record) experiment.Verdict {
			_, observed := r.localKeys()
			least, lasted := float64(r.servers*r.batch)/r.rate, mean(observed)
			return experiment.AtLeast(least, lasted, "the local keys of a server lasted %.2f s on average; one batch of %d keys lasts %.2f s at a server that gets 1/%d of the creations", lasted, r.batch, least, r.servers)
		}),
		counted(takeover, "links", "After the keys in the memory of a server are used up, the fallback makes the code of every link that is created until Redis is started again.", func(r *record) experiment.Verdict {
			usedUp, due, served := 0, 0, 0
			for _, s := range r.each() {
				due, served = due+s.due, served+s.served
				if s.usedUp {
					usedUp++
				}
			}
			return experiment.Holds(usedUp == r.servers && due > 0 && due == served, "%d of %d servers used up their local keys; "+
				"%d links were then created, and the fallback made the codes of %d of them", usedUp, r.servers, due, served).Figures(float64(due), float64(served))
		}),
		counted("breakers open and close", "servers", "The circuit breaker of every server opens while Redis is down, and is closed at the end of the run.", func(r *record) experiment.Verdict {
			open, closed := r.breakers()
			return experiment.Holds(open == r.servers && closed == r.servers, "at most %d of %d breakers were open at the same time, and %d were closed at the end",
				open, r.servers, closed).Figures(float64(r.servers), float64(open))
		}),
		counted(recovers, "", "After Redis is available again, every server takes batches of keys from Redis again.", func(r *record) experiment.Verdict {
			_, servers := r.recovery()
			return experiment.Holds(servers == r.servers, "the last codes of %d of %d servers come from batches", servers, r.servers)
		}),
		timed("recovery time", "Within 5 s after Redis is available again, every server takes batches of keys from Redis again.", func(r *record) experiment.Verdict {
			took, servers := r.recovery()
			return experiment.Holds(servers == r.servers && took <= recoverWithin,
				"%d of %d servers took their keys from batches again, and the slowest of these servers needed %.1f s", servers, r.servers, took.Seconds()).
				Figures(recoverWithin.Seconds(), took.Seconds())
		}),
		counted("new epoch", "epochs", "Exactly one new epoch of the pool begins, because Redis lost the pool.", func(r *record) experiment.Verdict {
			return experiment.Holds(r.after.epoch == r.before.epoch+1, "the epoch was %d before the outage and is %d at the end", r.before.epoch, r.after.epoch).
				Figures(1, float64(r.after.epoch-r.before.epoch))
		}),
		counted("no key of the lost pool used", "keys of the lost pool", "After the outage, no server uses a key of the pool that Redis lost: every key from a batch was reserved after Redis was started again.", func(r *record) experiment.Verdict {
			fresh, stale := 0, 0
			for _, s := range r.each() {
				fresh, stale = fresh+s.fresh, stale+s.stale
			}
			return experiment.Holds(fresh > 0 && stale == 0, "%d keys came from batches after the outage; %d of them were reserved before its end", fresh+stale, stale).
				Figures(0, float64(stale))
		}),
		counted("random codes reported", "codes", "A random code is a code that the fallback made. The number of random codes in the metrics of the servers differs by at most 0.1 % from the number of links with random codes. "+
			"The metrics may count one more code for each creation that failed, because a creation takes its code before the commit.", judgeReported),
	}, measure.Accounts("No creation fails.", func(r *record) *loadtest.Verdict { return r.links }))
}

func judgeReported(r *record) experiment.Verdict {
	random, failed := 0, 0
	for _, s := range r.each() {
		random, failed = random+s.random, failed+s.failed
	}
	least, most := float64(random), float64(random+failed)
	return experiment.Within(min(max(r.reported, least), most), r.reported, reportedWithin)
}

// counted returns a correctness claim. An incomplete run does not judge it.
func counted(name, unit, text string, judge func(*record) experiment.Verdict) claim {
	return claim{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: judge}.When(func(r *record) bool { return r.whole })
}

// timed returns a claim about a time in seconds. An incomplete run does not judge it, and neither does a small run.
func timed(name, text string, judge func(*record) experiment.Verdict) claim {
	return claim{Name: name, Text: text, Unit: "s", Kind: report.Speed, Judge: judge}.
		UnlessSmall(func(r *record) bool { return r.small }).When(func(r *record) bool { return r.whole })
}
