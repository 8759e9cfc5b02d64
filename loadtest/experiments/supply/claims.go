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

// The levels of the dead man's switch, as shares of the capacity, and the bounds.
const (
	restartBelow = 0.2
	pageBelow    = 0.1

	emptyWithin = 0.02            // of the predicted time
	alarmWithin = 3 * time.Second // for the switch to look and for the alarm to arrive
	switchLooks = time.Second     // from one look of the switch to the next
	manyLooks   = 5 * time.Second // one of the looks took place, also on a busy machine

	leastRefillRate = 1.5e6           // keys per second of a worker
	startWithin     = 5 * time.Second // of a worker, in addition to the time that leastRefillRate allows
)

// The names of claims that controls refute.
const (
	alarmOrder = "signals in order"
	refilled   = "pool refilled"
)

type claim = experiment.Claim[record]

func claims() []claim {
	return slices.Concat([]claim{
		timed("exhaustion predicted", "The pool runs dry within 2 % of the time that the first tenth of the drain predicts.", judgeEmpty),
		{
			Name: alarmOrder, Kind: report.Correctness, Judge: judgeOrder,
			Text: "While the pool runs dry, the service signals that the worker needs a restart, where it sees that level, and then pages a human. " +
				"It signals `ok` when the worker has filled the pool again and not before.",
		},
		timed("restart signalled", "When less than a fifth of the pool is left, the service signals within 3 s that the worker needs a restart.",
			func(r *record) experiment.Verdict {
				if r.between() < switchLooks { // the switch sends one signal at each look, and may have had none between the levels
					return r.judgeAlarm(restartBelow, "restart", "page")
				}
				return r.judgeAlarm(restartBelow, "restart")
			}),
		timed("page signalled", "When less than a tenth of the pool is left, the service pages a human within 3 s.",
			func(r *record) experiment.Verdict { return r.judgeAlarm(pageBelow, "page") }),
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
		timed("refill time", "The pool is full within 5 s of the worker's start and a second for every 1.5 million keys.", func(r *record) experiment.Verdict {
			return r.within(refillBound(r.capacity), r.back, r.full, "the pool is full")
		}),
		timed("all-clear time", "The service signals `ok` within 3 s of the pool being full.", func(r *record) experiment.Verdict {
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
		return judge(r)
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
	for _, a := range r.alerts {
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
// the switch had many looks between the levels. It counts the answers of /status, each of which holds
// one look of the switch, with fewer keys than the state allows.
func (r *record) alarmsDue() (restart bool, silent int) {
	restart = r.between() > manyLooks
	for _, s := range r.seconds {
		status := s.Value.Status
		if status.PoolKeys == nil || s.At.Before(r.started) || !r.back.IsZero() && s.At.After(r.back) {
			continue
		}
		share := (float64(*status.PoolKeys) + 1) / float64(r.capacity) // the service rounds its levels down
		restart = restart || status.State == "restart"
		if share < pageBelow && status.State != "page" || share < restartBelow && status.State != "page" && status.State != "restart" {
			silent++
		}
	}
	return restart, silent
}

// below returns when the pool was first seen with fewer keys than a share of its capacity, the zero
// time for never.
func (r *record) below(share float64) time.Time {
	i := slices.IndexFunc(r.seen, func(l level) bool { return float64(l.keys) < share*float64(r.capacity) })
	if i < 0 {
		return time.Time{}
	}
	return r.seen[i].at
}

// between is how long the pool was between the two levels, as far as it was seen.
func (r *record) between() time.Duration { return r.below(pageBelow).Sub(r.below(restartBelow)) }

// judgeAlarm judges the first signal of one of the states. It is due when the pool falls below a
// share of its capacity.
func (r *record) judgeAlarm(share float64, states ...string) experiment.Verdict {
	due := share * float64(r.capacity)
	alarm, came := lab.FirstAlert(r.alerts, r.started, states...)
	if keys := keysAt(r.seen, alarm.Received); came && float64(keys) >= due {
		return experiment.Holds(false, "%s came with %d keys left, and is due below %.0f", alarm.State, keys, due)
	}
	return r.within(alarmWithin, r.below(share), alarm.Received, fmt.Sprintf("one of the signals %v, due below %.0f keys", states, due))
}
