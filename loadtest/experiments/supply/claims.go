package supply

import (
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
			Text: "The service pages a human while the pool runs dry, and signals `ok` when the worker has filled the pool again and not before.",
		},
		timed(restartTime, "When less than a fifth of the pool is left, the service signals within 3 s that the worker needs a restart.",
			func(r *record) experiment.Verdict { return r.judgeAlarm(0.2, restartRunway, r.restartStates()...) }),
		timed(pageTime, "When less than a tenth of the pool is left, the service pages a human within 3 s.",
			func(r *record) experiment.Verdict { return r.judgeAlarm(0.1, pageRunway, "page") }),
		{
			Name: refilled, Text: "When the worker starts again, it fills the pool.", Kind: report.Correctness, Unit: "keys", Judge: judgeRefilled,
		},
		timed(refillTime, "The pool is full within 5 s of the worker's start and a second for every 1.5 million keys.", judgeRefillTime),
		timed(clearTime, "The service signals `ok` within 3 s of the pool being full.", judgeClear),
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

// seconds is d to the millisecond, and not negative: what this process saw late may have happened
// earlier.
func seconds(d time.Duration) float64 { return max(0, d.Round(time.Millisecond).Seconds()) }

// last is the last look at the pool.
func (r *record) last() level { return r.seen[len(r.seen)-1] }

func judgeEmpty(r *record) experiment.Verdict {
	if r.unsteady {
		return experiment.Holds(false, "the pool did not decline steadily enough to predict anything")
	}
	if r.predicted.slope == 0 {
		return experiment.Verdict{}
	}
	predicted := r.predicted.empty().Sub(r.started).Seconds()
	if !r.empty.IsZero() {
		return experiment.Within(predicted, r.empty.Sub(r.started).Seconds(), emptyWithin)
	}
	if lasted := r.last().at.Sub(r.started).Seconds(); lasted > predicted*(1+emptyWithin) {
		return experiment.Holds(false, "%.1f s were predicted, and after %.1f s the pool still held %d keys", predicted, lasted, r.last().keys)
	}
	return experiment.Verdict{}
}

// judgeOrder looks at the alerts only, and not at their times.
func judgeOrder(r *record) experiment.Verdict {
	if r.started.IsZero() || r.empty.IsZero() {
		return experiment.Verdict{}
	}
	var states []string
	paged, cleared := false, ""
	for _, a := range r.alerts {
		if a.Received.Before(r.started) {
			continue
		}
		states = append(states, a.State)
		early := r.back.IsZero() || a.Received.Before(r.back)
		switch {
		case a.State == "page":
			paged = true
		case a.State == "ok" && early:
			cleared = ", `ok` came before the worker was back"
		}
	}
	if r.full.IsZero() { // whether `ok` follows is not known
		return experiment.Holds(paged && cleared == "", "the signals are %v%s", states, cleared)
	}
	calm := len(states) > 0 && states[len(states)-1] == "ok"
	return experiment.Holds(paged && calm && cleared == "", "the signals are %v%s", states, cleared)
}

// restartStates are the signals that count as the call for a restart. The switch sends one signal
// at each look, so a page counts too when the switch had no look in which a restart was due: the pool
// fell below the next level, or the page was due by the other rule, within the time of a look.
func (r *record) restartStates() []string {
	seen := since(r.seen, r.started)
	fifth, known := below(seen, 0.2*float64(r.capacity))
	tenth, emptier := below(seen, 0.1*float64(r.capacity))
	page, paged := lab.FirstAlert(r.alerts, r.started, "page")
	if known && (emptier && tenth.Sub(fifth) < switchLooks || paged && page.Received.Sub(fifth) < switchLooks) {
		return []string{"restart", "page"}
	}
	return []string{"restart"}
}

// judgeAlarm judges the first signal of one of the states. It is due when the pool falls below a
// share of its capacity.
func (r *record) judgeAlarm(share, runway float64, states ...string) experiment.Verdict {
	due := share * float64(r.capacity)
	crossed, ok := below(since(r.seen, r.started), due)
	if !ok {
		return experiment.Verdict{}
	}
	alarm, came := lab.FirstAlert(r.alerts, r.started, states...)
	waited := r.last().at.Sub(crossed)
	switch {
	case came && float64(keysAfter(r.seen, alarm.Received)) >= due:
		return r.judgeEarly(alarm, runway)
	case came:
		took := seconds(alarm.Received.Sub(crossed))
		return experiment.AtMost(alarmWithin.Seconds(), took, "the signal came %.3f s after the pool fell below %.0f keys", took, due)
	case waited > alarmWithin:
		return experiment.Holds(false, "there is no signal %.1f s after the pool fell below %.0f keys", waited.Seconds(), due)
	}
	return experiment.Verdict{}
}

// judgeEarly judges a signal that came above its level. It is right when the pool does not last.
func (r *record) judgeEarly(alarm lab.Alert, runway float64) experiment.Verdict {
	arrived := r.started
	if t, ok := below(since(r.seen, r.started), 0.9*float64(r.capacity)); ok {
		arrived = t
	}
	keys, still := keysAt(r.seen, alarm.Received), alarm.Received.Sub(arrived)
	lasts := float64(keys) / r.predicted.slope
	return experiment.Holds(still >= stillFor && lasts < runway,
		"the signal came with %d keys left, which lasted %.0f s, %.1f s after the pool was nearly full; when no key arrives and the pool lasts "+
			"less than %.0f s, the switch does not wait for the level", keys, lasts, still.Seconds(), runway)
}

func judgeRefilled(r *record) experiment.Verdict {
	if r.back.IsZero() {
		return experiment.Verdict{}
	}
	v := experiment.Holds(!r.full.IsZero(), "%.1f s after the worker's start the pool holds %d keys", r.last().at.Sub(r.back).Seconds(), r.last().keys)
	return v.Figures(float64(leastFull(r.capacity)), float64(r.last().keys))
}

func judgeRefillTime(r *record) experiment.Verdict {
	limit := refillBound(r.capacity)
	switch {
	case r.back.IsZero():
	case !r.full.IsZero():
		took := seconds(r.full.Sub(r.back))
		return experiment.AtMost(seconds(limit), took, "the pool was full after %.3f s", took)
	case r.last().at.Sub(r.back) > limit:
		return experiment.Holds(false, "%.1f s after the worker's start the pool holds %d keys", r.last().at.Sub(r.back).Seconds(), r.last().keys)
	}
	return experiment.Verdict{}
}

// judgeClear accepts a signal from the moment on at which the pool is above the levels.
func judgeClear(r *record) experiment.Verdict {
	if r.full.IsZero() {
		return experiment.Verdict{}
	}
	signal, came := lab.FirstAlert(r.alerts, r.back, "ok")
	switch waited := r.last().at.Sub(r.full); {
	case came:
		took := seconds(signal.Received.Sub(r.full))
		return experiment.AtMost(alarmWithin.Seconds(), took, "`ok` came after %.3f s", took)
	case waited > alarmWithin:
		return experiment.Holds(false, "there is no signal %.1f s after the pool was full", waited.Seconds())
	}
	return experiment.Verdict{}
}
