package supply

import (
	"fmt"
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// The bounds.
const (
	emptyWithin = 0.02            // of the predicted time
	alarmWithin = 3 * time.Second // for the switch to look and for the alarm to arrive
	switchLooks = time.Second     // from one look of the switch to the next
	manyLooks   = 5 * time.Second // one of the looks took place, also on a busy machine

	leastRefillRate = 1.5e6           // keys per second of a worker
	startWithin     = 5 * time.Second // of a worker, in addition to the time that leastRefillRate allows
)

// The switch also raises an alarm when no key arrived for stillFor and the pool lasts for less than
// these seconds.
const (
	stillFor      = 9 * time.Second // ten, less the second between two looks
	restartRunway = 60.0
	pageRunway    = 30.0
)

// The names of the claims.
const (
	dryMoment   = "exhaustion predicted"
	restartTime = "restart signalled"
	pageTime    = "page signalled"
	alarmOrder  = "signals in order"
	refilled    = "pool refilled"
	refillTime  = "refill time"
	clearTime   = "all-clear time"
)

type claim = experiment.Claim[record]

func claims() []claim {
	return slices.Concat([]claim{
		timed(dryMoment, "The pool runs dry within 2 % of the time that the first tenth of the drain predicts.", judgeEmpty),
		{
			Name: alarmOrder, Kind: report.Correctness, Judge: judgeOrder,
			Text: "While the pool runs dry, the service signals that the worker needs a restart, where it sees that level, and then pages a human. " +
				"It signals `ok` when the worker has filled the pool again and not before.",
		},
		timed(restartTime, "When less than a fifth of the pool is left, the service signals within 3 s that the worker needs a restart.",
			func(r *record) experiment.Verdict { return r.judgeAlarm(0.2, restartRunway, r.restartStates()...) }),
		timed(pageTime, "When less than a tenth of the pool is left, the service pages a human within 3 s.",
			func(r *record) experiment.Verdict { return r.judgeAlarm(0.1, pageRunway, "page") }),
		{
			Name: refilled, Text: "When the worker starts again, it fills the pool.", Kind: report.Correctness, Unit: "keys", Judge: func(r *record) experiment.Verdict {
				if r.back.IsZero() {
					return experiment.Verdict{}
				}
				last := r.seen[len(r.seen)-1]
				return experiment.Holds(!r.full.IsZero(), "%.1f s after the worker's start the pool holds %d keys", last.at.Sub(r.back).Seconds(), last.keys).
					Figures(float64(leastFull(r.capacity)), float64(last.keys))
			},
		},
		timed(refillTime, "The pool is full within 5 s of the worker's start and a second for every 1.5 million keys.", func(r *record) experiment.Verdict {
			return r.within(refillBound(r.capacity), r.back, r.full, "the pool is full")
		}),
		timed(clearTime, "The service signals `ok` within 3 s of the pool being full.", func(r *record) experiment.Verdict {
			ok, _ := lab.FirstAlert(r.alerts, r.back, "ok")
			return r.within(alarmWithin, r.full, ok.Received, "`ok` since the pool is full")
		}),
	}, measure.Accounts("No creation fails, with or without a pool.", func(r *record) *loadtest.Verdict { return r.links }), fillClaims())
}

// timed is a claim on a time in seconds. A small run does not judge it: a tenth of its pool is too
// few keys to predict from, and its levels are too close to each other.
func timed(name, text string, judge func(*record) experiment.Verdict) claim {
	return claim{Name: name, Text: text, Unit: "s", Kind: report.Speed, Judge: func(r *record) experiment.Verdict {
		if r.small {
			return experiment.NotJudged("a run at a small scale does not judge times")
		}
		if len(r.seen) == 0 || r.started.IsZero() {
			return experiment.Verdict{}
		}
		return judge(r).Unless(r.unfit)
	}}
}

// refillBound is how long a worker may take from its start to a full pool.
func refillBound(capacity int64) time.Duration {
	return startWithin + time.Duration(float64(capacity)/leastRefillRate*float64(time.Second))
}

// within judges that something happened at most limit after from; the zero time says that it did not
// happen. What this process saw late may have happened earlier, so it may come before from.
func (r *record) within(limit time.Duration, from, came time.Time, what string) experiment.Verdict {
	waited := r.seen[len(r.seen)-1].at.Sub(from)
	switch {
	case from.IsZero() || came.IsZero() && waited <= limit:
		return experiment.Verdict{}
	case came.IsZero():
		return experiment.Holds(false, "not after %.1f s: %s", waited.Seconds(), what)
	}
	took := max(0, came.Sub(from).Round(time.Millisecond).Seconds())
	return experiment.AtMost(limit.Seconds(), took, "after %.3f s: %s", took, what)
}

func judgeEmpty(r *record) experiment.Verdict {
	switch {
	case r.unsteady:
		return experiment.Holds(false, "the pool did not decline steadily enough to predict anything")
	case r.predicted.slope == 0:
		return experiment.Verdict{}
	}
	predicted := r.predicted.empty().Sub(r.started)
	if r.empty.IsZero() {
		return r.within(time.Duration((1+emptyWithin)*float64(predicted)), r.started, r.empty, "the pool is empty")
	}
	return experiment.Within(predicted.Seconds(), r.empty.Sub(r.started).Seconds(), emptyWithin)
}

// judgeOrder judges which signals came and in which order, and not how fast. While the worker is
// stopped they are `restart` and then `page`, each of which may be delivered again. `page` may come
// alone only when the switch need not have seen the pool between the levels: a usual pool falls
// from the one to the other in about the time between two looks. Later another `restart` may come on
// the way up, and `ok` is the last.
func judgeOrder(r *record) experiment.Verdict {
	if r.started.IsZero() || r.empty.IsZero() {
		return experiment.Verdict{}
	}
	var down, up []string
	for _, a := range r.signals() {
		if r.back.IsZero() || a.Received.Before(r.back) {
			down = append(down, a.State)
		} else {
			up = append(up, a.State)
		}
	}
	due, silent := r.alarmsDue()
	down = slices.Compact(down)
	ordered := slices.Equal(down, []string{"restart", "page"}) || slices.Equal(down, []string{"page"}) && !due
	calm := len(up) > 0 && up[len(up)-1] == "ok" || r.full.IsZero() // whether `ok` follows is not known before the pool is full
	return experiment.Holds(ordered && calm && silent == 0, "the signals are %v and, from the worker's start on, %v; `restart` was due for certain: %t; "+
		"%d times /status showed too few keys for its state", down, up, due, silent)
}

// alarmsDue returns whether the switch was in the state restart for certain: /status showed that, or
// the page came many looks after the level was reached. It counts the answers of /status, which hold
// one look of the switch, with fewer keys than the state allows.
func (r *record) alarmsDue() (restart bool, silent int) {
	fifth, tenth := 0.2*float64(r.capacity), 0.1*float64(r.capacity)
	crossed := below(since(r.seen, r.started), fifth)
	page, paged := lab.FirstAlert(r.alerts, r.started, "page")
	restart = paged && !crossed.IsZero() && page.Received.Sub(crossed) > manyLooks
	for _, s := range r.seconds {
		status := s.Value.Status
		if status.PoolKeys == nil || s.At.Before(r.started) || !r.back.IsZero() && s.At.After(r.back) {
			continue
		}
		restart = restart || status.State == "restart"
		keys, alarmed := *status.PoolKeys, status.State == "restart" || status.State == "page"
		if keys < int64(fifth) && !alarmed || keys < int64(tenth) && status.State != "page" {
			silent++
		}
	}
	return restart, silent
}

// restartStates are the signals that count as the call for a restart. The switch sends one signal
// at each look, so a page counts too when the switch had no look in which a restart was due: the pool
// fell below the next level, or the page was due by the other rule, within the time of a look.
func (r *record) restartStates() []string {
	seen := since(r.seen, r.started)
	fifth, tenth := below(seen, 0.2*float64(r.capacity)), below(seen, 0.1*float64(r.capacity))
	page, paged := lab.FirstAlert(r.alerts, r.started, "page")
	if !tenth.IsZero() && tenth.Sub(fifth) < switchLooks || paged && page.Received.Sub(fifth) < switchLooks {
		return []string{"restart", "page"}
	}
	return []string{"restart"}
}

// judgeAlarm judges the first signal of one of the states. It is due when the pool falls below a
// share of its capacity.
func (r *record) judgeAlarm(share, runway float64, states ...string) experiment.Verdict {
	due := share * float64(r.capacity)
	crossed := below(since(r.seen, r.started), due)
	alarm, came := lab.FirstAlert(r.alerts, r.started, states...)
	if came && !crossed.IsZero() && float64(keysAt(r.seen, alarm.Received)) >= due {
		return r.judgeEarly(alarm, runway)
	}
	return r.within(alarmWithin, crossed, alarm.Received, fmt.Sprintf("one of the signals %v, which are due below %.0f keys", states, due))
}

// judgeEarly judges a signal that came above its level. It is right when the pool does not last.
func (r *record) judgeEarly(alarm lab.Alert, runway float64) experiment.Verdict {
	arrived := r.started
	if t := below(since(r.seen, r.started), 0.9*float64(r.capacity)); !t.IsZero() {
		arrived = t
	}
	keys, still := keysAt(r.seen, alarm.Received), alarm.Received.Sub(arrived)
	lasts := float64(keys) / r.predicted.slope
	return experiment.Holds(still >= stillFor && lasts < runway,
		"the signal came with %d keys left, which lasted %.0f s, %.1f s after the pool was nearly full; when no key arrives and the pool lasts "+
			"less than %.0f s, the switch does not wait for the level", keys, lasts, still.Seconds(), runway)
}
