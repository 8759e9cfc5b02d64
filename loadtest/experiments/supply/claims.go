package supply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// The thresholds of the dead man's switch, as shares of the capacity, and the bounds of the claims.
const (
	restartBelow = 0.2
	pageBelow    = 0.1

	emptyWithin     = 0.02            // greatest difference from the predicted time, as a share of this time
	simulatedWithin = 0.05            // greatest difference from the simulated time, as a share of this time
	alarmWithin     = 3 * time.Second // longest time until the switch has checked the pool and the alarm has arrived
	checkEvery      = time.Second     // interval between two checks of the switch
	checkWithin     = 5 * time.Second // the switch checks the pool at least once in this time, even on a busy machine

	leastRefillRate = 1.5e6           // least number of keys per second that a worker must push to the pool
	startWithin     = 5 * time.Second // time for the start of a worker, which is added to the time that leastRefillRate allows
)

// Names of claims that must fail in a control.
const (
	alarmOrder = "signals in order"
	refilled   = "pool refilled"
)

type claim = experiment.Claim[record]

// claims returns the claims of supply/drain.
func claims() []claim {
	return slices.Concat([]claim{
		timed("pool empty as predicted", "When the worker is stopped, the time until the pool is empty differs by at most 2 % from the prediction. The prediction uses only the observations until a tenth of the keys is taken.", judgeEmpty),
		timed("pool empty as simulated", "When the worker is stopped, the time until the pool is empty differs by at most 5 % from the time that the simulator (`bin/loadtest simulate`) computes for the same pool and rate.", judgeSimulated),
		{
			Name: alarmOrder, Kind: report.Correctness, Judge: judgeOrder,
			Text: "While the pool drains, the service signals `restart` and then `page`. It may omit `restart` if the pool falls below " +
				"both thresholds between two checks of the dead man's switch. The last signal after the worker has been started again is `ok`. The service does not signal `ok` before the worker has been started again.",
		},
		timed("restart signalled", "The service signals `restart` within 3 s after the pool has fallen below a fifth of its capacity. "+
			"It may signal `page` instead if the pool falls below both thresholds between two checks of the dead man's switch.",
			func(r *record) experiment.Verdict {
				if r.between() < checkEvery { // the switch may not have checked the pool while the level was between the thresholds
					return r.judgeAlarm(restartBelow, "restart", "page")
				}
				return r.judgeAlarm(restartBelow, "restart")
			}),
		timed("page signalled", "The service signals `page` within 3 s after the pool has fallen below a tenth of its capacity.",
			func(r *record) experiment.Verdict { return r.judgeAlarm(pageBelow, "page") }),
		{
			Name: refilled, Text: "After the worker has been started again, it fills the pool.", Kind: report.Correctness, Unit: "keys", Judge: func(r *record) experiment.Verdict {
				if r.back.IsZero() {
					return experiment.Verdict{}
				}
				last := r.seen[len(r.seen)-1]
				return experiment.Holds(!r.full.IsZero(), "%.1f s after the start of the worker, the pool holds %d keys", last.at.Sub(r.back).Seconds(), last.keys).
					Figures(float64(leastFull(r.capacity)), float64(last.keys))
			},
		},
		timed("refill time", "After the start of the worker, the pool is full within 5 s plus a second for every 1.5 million keys.", func(r *record) experiment.Verdict {
			return r.within(refillBound(r.capacity), "the worker was started again", r.back, r.full, "the pool is full")
		}),
		timed("ok signalled", "The service signals `ok` within 3 s after the pool has become full.", func(r *record) experiment.Verdict {
			ok, _ := lab.FirstAlert(r.alerts, r.back, "ok")
			return r.within(alarmWithin, "the pool was full", r.full, ok.Received, "the service signals `ok`")
		}),
	}, measure.Accounts("No creation fails, neither while the pool has keys nor while it is empty.", func(r *record) *loadtest.Verdict { return r.links }), fillClaims())
}

// timed returns a claim about a time in seconds. A small run does not judge the claim. A tenth of a small
// pool has too few keys for a prediction, and the thresholds of a small pool are too close to each other.
func timed(name, text string, judge func(*record) experiment.Verdict) claim {
	return claim{Name: name, Text: text, Unit: "s", Kind: report.Speed, Judge: judge}.
		When(func(r *record) bool { return len(r.seen) > 0 && !r.started.IsZero() }).UnlessSmall(func(r *record) bool { return r.small })
}

// refillBound returns the longest time that a worker may take from its start until the pool is full.
func refillBound(capacity int64) time.Duration {
	return startWithin + time.Duration(float64(capacity)/leastRefillRate*float64(time.Second))
}

// within judges whether an event happened at most limit after start. The parameter event is the time of the
// event, or zero if the event was not observed. The text since says what happened at start. The event may be
// earlier than start, because this process may observe with a delay what happened at start.
func (r *record) within(limit time.Duration, since string, start, event time.Time, what string) experiment.Verdict {
	waited := r.seen[len(r.seen)-1].at.Sub(start)
	switch {
	case start.IsZero() || event.IsZero() && waited <= limit:
		return experiment.Verdict{}
	case event.IsZero():
		return experiment.Holds(false, "within %.1f s after %s, the run did not observe that %s", waited.Seconds(), since, what)
	}
	took := max(0, event.Sub(start).Round(time.Millisecond).Seconds())
	return experiment.AtMost(limit.Seconds(), took, "%.3f s after %s, the run observed that %s", took, since, what)
}

// judgeEmpty compares the time until the pool was empty with the prediction.
func judgeEmpty(r *record) experiment.Verdict {
	switch {
	case r.unsteady:
		return experiment.Holds(false, "the number of keys did not fall steadily enough for a prediction")
	case r.predicted.slope == 0:
		return experiment.Verdict{}
	}
	predicted := r.predicted.empty().Sub(r.started)
	if r.empty.IsZero() {
		return r.within(time.Duration((1+emptyWithin)*float64(predicted)), "the worker was stopped", r.started, r.empty, "the pool is empty")
	}
	return experiment.Within(predicted.Seconds(), r.empty.Sub(r.started).Seconds(), emptyWithin)
}

// judgeSimulated compares the time until the pool was empty with the simulation.
func judgeSimulated(r *record) experiment.Verdict {
	switch {
	case r.simulated == 0:
		return experiment.Verdict{}
	case r.empty.IsZero():
		return r.within(time.Duration((1+simulatedWithin)*float64(r.simulated)), "the worker was stopped", r.started, r.empty, "the pool is empty")
	}
	return experiment.Within(r.simulated.Seconds(), r.empty.Sub(r.started).Seconds(), simulatedWithin)
}

// judgeOrder judges which signals were sent and in which order, but not when. While the worker is stopped,
// the signals are `restart` and then `page`, and each may be delivered more than once. `page` without
// `restart` is correct only if the pool may have fallen below both thresholds between two checks of the
// switch. The fall from one threshold to the other usually takes about as long as the interval between two
// checks. After the start of the worker, `restart` may be sent again while the pool fills, and `ok` is the last
// signal.
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
	due, tooMild := r.alarmsDue()
	down = slices.Compact(down)
	ordered := slices.Equal(down, []string{"restart", "page"}) || slices.Equal(down, []string{"page"}) && !due
	calm := len(up) > 0 && up[len(up)-1] == "ok" || r.full.IsZero() // `ok` is required only if the pool became full
	restart := "may be omitted"
	if due {
		restart = "is required"
	}
	return experiment.Holds(ordered && calm && tooMild == 0, "the signals were %s before the worker was started again, and %s after that; `restart` %s; "+
		"%d answers of /status showed a better state than their number of keys allows", listed(down), listed(up), restart, tooMild)
}

// listed returns the signals in their order, or "none".
func listed(signals []string) string { return cmp.Or(strings.Join(signals, ", "), "none") }

// alarmsDue reports whether the switch must have been in the state restart. The switch must have been in this
// state if /status showed the state, or if the level was between the two thresholds long enough for at least
// one check. alarmsDue also returns the number of answers of /status that show fewer keys than their state
// allows. Each answer shows the result of one check.
func (r *record) alarmsDue() (restart bool, tooMild int) {
	restart = r.between() > checkWithin
	for _, s := range r.statuses {
		status := s.Value
		if s.Err != nil || status.PoolKeys == nil || s.At.Before(r.started) || !r.back.IsZero() && s.At.After(r.back) {
			continue
		}
		share := (float64(*status.PoolKeys) + 1) / float64(r.capacity) // the service rounds its thresholds down
		restart = restart || status.State == "restart"
		if share < pageBelow && status.State != "page" || share < restartBelow && status.State != "page" && status.State != "restart" {
			tooMild++
		}
	}
	return restart, tooMild
}

// below returns the time at which the pool was first observed with fewer keys than a share of its capacity. It
// returns the zero time if this was never observed.
func (r *record) below(share float64) time.Time {
	i := slices.IndexFunc(r.seen, func(l level) bool { return float64(l.keys) < share*float64(r.capacity) })
	if i < 0 {
		return time.Time{}
	}
	return r.seen[i].at
}

// between returns how long the pool was observed between the two thresholds of the switch.
func (r *record) between() time.Duration { return r.below(pageBelow).Sub(r.below(restartBelow)) }

// judgeAlarm judges when the first signal with one of the states was received. The signal is due when the
// pool falls below the given share of its capacity.
func (r *record) judgeAlarm(share float64, states ...string) experiment.Verdict {
	due := share * float64(r.capacity)
	alarm, came := lab.FirstAlert(r.alerts, r.started, states...)
	if keys := keysAt(r.seen, alarm.Received); came && float64(keys) >= due {
		return experiment.Holds(false, "the signal `%s` came when %d keys were left, but it is due only below %.0f keys", alarm.State, keys, due)
	}
	return r.within(alarmWithin, fmt.Sprintf("the pool had fallen below %.0f keys", due), r.below(share), alarm.Received, "the service signals "+strings.Join(states, " or "))
}
