package measure

import (
	"context"
	"fmt"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/report"
)

// These constants define how a p99 is measured and judged. Each round sends requests at a steady rate without
// waiting for answers. The latency of a request begins when the request is due. The result of the load, and of each
// baseline, is the median of the p99s of its rounds. The bound for the load is BaselineFactor times the sum of the
// results of the baselines, but at least LatencyBound. Each baseline is one part of the work for a request, such as
// the INSERT. The baselines run at the same rate in the same rounds, so a slow machine slows the load and the
// baselines alike.
const (
	LatencyBound   = 10 * time.Millisecond // the bound if the baselines are fast
	BaselineFactor = 1.5
	LatencyRounds  = 5

	warmUp        = 300 * time.Millisecond
	baselineShare = 0.3 // duration of each baseline, as a share of the duration of the load
)

// Load sends requests at the given rate, in requests per second, for the duration d, and records them in r. The
// method [lab.Load.Run] has this type.
type Load func(ctx context.Context, rate float64, d time.Duration, r *loadtest.Recorder)

// Steady describes a measurement of latency at a steady rate.
type Steady struct {
	Rate      float64       // requests per second
	Lasts     time.Duration // duration of the load in all rounds together
	Load      Load
	Baselines []Baseline // if empty, the latency is measured and not judged
}

// LatencyText returns the text of a claim about a p99. parts describes the sum of the baselines, such as "a
// single-row INSERT plus the p99 of a redirect without a look-up".
func LatencyText(what, parts string, rate float64) string {
	return fmt.Sprintf("At %.0f %s per second, the p99 of the latency is at most %.1f times the baseline or %d ms, whichever is more. The time of a request begins when the request is due. "+
		"The baseline is the p99 of %s on this machine at the same rate. Each of %d rounds measures the load and then the baseline. The claim compares the medians of the rounds.",
		rate, what, BaselineFactor, LatencyBound.Milliseconds(), parts, LatencyRounds)
}

// Latencies is the result of [Latency].
type Latencies struct {
	Steady Steady

	Warm    loadtest.Figures // figures of the load during the warm-up
	Total   loadtest.Figures // figures of the load in all rounds
	Seconds float64          // sum of the durations of the load in all rounds, each from its start to the outcome of its last request
	Rounds  int              // number of complete rounds
	P99     Series           // p99 of the load in each round, in ms
	Beside  []Series         // p99 of each baseline in each round, in ms
}

// All returns the counts of the whole load, including the warm-up.
func (l *Latencies) All() loadtest.Figures { return l.Warm.Plus(l.Total) }

// Latency runs the baselines and the load briefly as a warm-up and then measures them in rounds. If ctx ends,
// Latency returns the rounds so far without an error. If a baseline fails, Latency returns the rounds so far and
// the error.
func Latency(ctx context.Context, s Steady) (*Latencies, error) {
	l := &Latencies{Steady: s, Beside: make([]Series, len(s.Baselines))}
	for _, b := range s.Baselines {
		if _, err := b.Run(ctx, s.Rate, warmUp); err != nil {
			return l, unlessEnded(ctx, fmt.Errorf("%s: %w", b.Name, err))
		}
	}
	recorder := loadtest.NewRecorder()
	s.Load(ctx, s.Rate, warmUp, recorder)
	l.Warm = recorder.Figures()
	total := loadtest.NewRecorder()
	defer func() { l.Total = total.Figures() }()
	for range LatencyRounds {
		if err := l.round(ctx, total); err != nil || ctx.Err() != nil {
			return l, err
		}
		l.Rounds++
	}
	return l, nil
}

// round measures the load and then each baseline.
func (l *Latencies) round(ctx context.Context, total *loadtest.Recorder) error {
	s := &l.Steady
	each := s.Lasts / LatencyRounds
	recorder := loadtest.NewRecorder()
	started := time.Now()
	s.Load(ctx, s.Rate, each, recorder)
	l.Seconds += time.Since(started).Seconds()
	f := recorder.Figures()
	total.Add(recorder)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end of ctx is not an error
	}
	l.P99 = append(l.P99, milliseconds(f.Latency.P99))
	for i, b := range s.Baselines {
		o, err := b.Run(ctx, s.Rate, time.Duration(baselineShare*float64(each)))
		if err == nil && (o.Failed > 0 || o.Acknowledged == 0) { // a failed baseline gives no usable bound
			err = fmt.Errorf("%d requests succeeded and %d failed: %s", o.Acknowledged, o.Failed, o.Reason)
		}
		if err != nil {
			return unlessEnded(ctx, fmt.Errorf("baseline %s: %w", b.Name, err))
		}
		l.Beside[i] = append(l.Beside[i], milliseconds(o.P99))
	}
	return nil
}

// Bound returns the largest p99 that the claim allows, in ms.
func (l *Latencies) Bound() float64 {
	sum := 0.0
	for _, s := range l.Beside {
		sum += s.Median()
	}
	return max(milliseconds(LatencyBound), BaselineFactor*sum)
}

// Verdict judges the p99. It returns the zero Verdict if l is nil.
func (l *Latencies) Verdict() experiment.Verdict {
	if l == nil {
		return experiment.Verdict{}
	}
	p99, bound := l.P99.Median(), l.Bound()
	switch f := l.Total; {
	case l.Rounds < LatencyRounds:
		return experiment.NotJudged("only %d of %d rounds were completed", l.Rounds, LatencyRounds)
	case len(l.Steady.Baselines) == 0:
		return experiment.NotJudged("there is no baseline on this machine; the p99 is %.1f ms", p99)
	case f.Failed() > 0 && p99 <= bound: // requests that are refused at once make the p99 small
		return experiment.NotJudged("%d of %d requests failed, so the p99 of %.1f ms is not meaningful", f.Failed(), f.Sent+f.Unsent, p99)
	}
	return experiment.AtMost(bound, p99, "the p99 is %.1f ms; the p99s of the baselines are %s; the bound is %.1f ms", p99, l.baselines(), bound)
}

// baselines lists the baselines with their p99s.
func (l *Latencies) baselines() string {
	var parts []string
	for i, b := range l.Steady.Baselines {
		parts = append(parts, fmt.Sprintf("%s %.1f ms", b.Name, l.Beside[i].Median()))
	}
	return strings.Join(parts, ", ")
}

// Complete returns the verdict v on a claim about the load. If v holds and rounds are missing, Complete returns
// "not judged" instead, because the claim could fail in a missing round.
func (l *Latencies) Complete(v experiment.Verdict) experiment.Verdict {
	if l.Rounds < LatencyRounds && v.Outcome == report.Held {
		return experiment.NotJudged("only %d of %d rounds were completed", l.Rounds, LatencyRounds)
	}
	return v
}

// unlessEnded returns err, or nil if ctx has ended, because the end of ctx is then the cause of err.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
