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

// The one definition of a p99: the median over rounds of the open-loop p99 at a steady rate,
// from when each request was due. Its bound is LatencyBound or, where that is more,
// BaselineFactor times the sum of the p99s of the baselines, which are the parts of a request.
// The baselines run at the same rate in the same rounds, so a slow machine slows both sides.
const (
	LatencyBound   = 10 * time.Millisecond // on a quiet machine
	BaselineFactor = 1.5
	LatencyRounds  = 5

	warmUp        = 300 * time.Millisecond
	baselineShare = 0.3 // of the time of the load, for each baseline
)

// Load is a load at a rate for a time, recorded by r. [lab.Load.Run] is one.
type Load func(ctx context.Context, rate float64, d time.Duration, r *loadtest.Recorder) error

// Steady says what to measure the latency of.
type Steady struct {
	What      string // "creations"
	Rate      float64
	Lasts     time.Duration // the load in all rounds together
	Load      Load
	Baselines []Baseline // none: the latency is measured and not judged
	// Round is called when a part of a round begins, with the recorder of the load, nil for a
	// baseline.
	Round func(phase string, r *loadtest.Recorder)
}

// LatencyText is the sentence of a claim about a p99. parts names the baselines.
func LatencyText(what, parts string, rate float64) string {
	return fmt.Sprintf("At %.0f %s per second, 99 of 100 take at most %d ms from when they are due, or, where that is more, at most %.1f times "+
		"as long as %s on this machine at the same rate, measured in turn (median of %d rounds).",
		rate, what, LatencyBound.Milliseconds(), BaselineFactor, parts, LatencyRounds)
}

// Latencies is what [Latency] measured.
type Latencies struct {
	Steady Steady

	Warm    loadtest.Figures // of the load while it warmed up
	Total   loadtest.Figures // of the load in all rounds
	Seconds float64          // of load in all rounds, until the last outcome of each
	Rounds  int              // that ran to their end
	P99     Series           // of the load, in ms
	Beside  []Series         // of each baseline, in ms
}

// All are the figures of the whole load, with the time in which it warmed up.
func (l *Latencies) All() loadtest.Figures { return l.Warm.Plus(l.Total) }

// Latency warms up and then measures the load and its baselines in rounds. When ctx ends it
// returns the rounds so far without an error. An error of the load, or a baseline that failed,
// ends it with the rounds so far.
func Latency(ctx context.Context, s Steady) (*Latencies, error) {
	l := &Latencies{Steady: s, Beside: make([]Series, len(s.Baselines))}
	for _, b := range s.Baselines {
		if _, err := b.Run(ctx, s.Rate, warmUp); err != nil {
			return l, unlessEnded(ctx, fmt.Errorf("%s: %w", b.Name, err))
		}
	}
	recorder := loadtest.NewRecorder()
	err := s.Load(ctx, s.Rate, warmUp, recorder)
	l.Warm = recorder.Figures()
	if err != nil {
		return l, err
	}
	total := loadtest.NewRecorder()
	for range LatencyRounds {
		err = l.round(ctx, total)
		if err != nil || ctx.Err() != nil {
			break
		}
		l.Rounds++
	}
	l.Total = total.Figures()
	return l, err
}

// round measures the load and then each baseline.
func (l *Latencies) round(ctx context.Context, total *loadtest.Recorder) error {
	s := &l.Steady
	each := s.Lasts / LatencyRounds
	recorder := loadtest.NewRecorder()
	s.Round(fmt.Sprintf("%.0f %s per second", s.Rate, s.What), recorder)
	started := time.Now()
	err := s.Load(ctx, s.Rate, each, recorder)
	l.Seconds += time.Since(started).Seconds()
	f := recorder.Figures()
	total.Add(recorder)
	if err != nil || ctx.Err() != nil {
		return err
	}
	l.P99 = append(l.P99, milliseconds(f.Latency.P99))
	for i, b := range s.Baselines {
		s.Round(fmt.Sprintf("baseline: %s, %.0f per second", b.Name, s.Rate), nil)
		o, err := b.Run(ctx, s.Rate, time.Duration(baselineShare*float64(each)))
		if err == nil && (o.Failed > 0 || o.Acknowledged == 0) { // its p99 would allow anything
			err = fmt.Errorf("%d requests succeeded and %d failed: %s", o.Acknowledged, o.Failed, o.Reason)
		}
		if err != nil {
			return unlessEnded(ctx, fmt.Errorf("baseline %s: %w", b.Name, err))
		}
		l.Beside[i] = append(l.Beside[i], milliseconds(o.P99))
	}
	return nil
}

// Bound is the most that the p99 may be, in ms.
func (l *Latencies) Bound() float64 {
	sum := 0.0
	for _, s := range l.Beside {
		sum += s.Median()
	}
	return max(milliseconds(LatencyBound), BaselineFactor*sum)
}

// Verdict judges the p99. A nil l is not judged.
func (l *Latencies) Verdict() experiment.Verdict {
	if l == nil {
		return experiment.Verdict{}
	}
	p99, bound := l.P99.Median(), l.Bound()
	switch f := l.Total; {
	case l.Rounds < LatencyRounds:
		return experiment.NotJudged("%d of %d rounds ran", l.Rounds, LatencyRounds)
	case len(l.Steady.Baselines) == 0:
		return experiment.NotJudged("there is no baseline on this machine; the p99 is %.1f ms", p99)
	case f.Failed() > 0 && p99 <= bound: // requests that are refused at once make the p99 short
		return experiment.NotJudged("%d of %d requests failed, so a p99 of %.1f ms says nothing", f.Failed(), f.Sent+f.Unsent, p99)
	}
	return experiment.AtMost(bound, p99, "p99 %.1f ms; baselines: %s; at most %.1f ms are allowed", p99, l.baselines(), bound)
}

// baselines names the baselines with their p99s.
func (l *Latencies) baselines() string {
	var parts []string
	for i, b := range l.Steady.Baselines {
		parts = append(parts, fmt.Sprintf("%s %.1f ms", b.Name, l.Beside[i].Median()))
	}
	return strings.Join(parts, ", ")
}

// Complete takes back that a claim about the load holds when not all rounds ran.
func (l *Latencies) Complete(v experiment.Verdict) experiment.Verdict {
	if l.Rounds < LatencyRounds && v.Outcome == report.Held {
		return experiment.NotJudged("%d of %d rounds ran", l.Rounds, LatencyRounds)
	}
	return v
}

// unlessEnded is err, or nil when the end of ctx explains it.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
