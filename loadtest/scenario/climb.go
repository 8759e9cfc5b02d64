package scenario

import (
	"context"
	"fmt"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
)

const (
	climbFactor = 1.6 // from one step to the next
	climbSteps  = 8   // at the most
	// kneeLatency is the p99 from which on a service no longer keeps up: far more than it
	// takes, far less than it takes a queue that grows for all of a step to be seen.
	kneeLatency = 100 * time.Millisecond
)

// step is a steady rate and what came of it.
type step struct {
	Offered float64 // requests per second
	Seconds float64 // until the last request had its outcome
	loadtest.Figures
}

// achieved is how many requests per second were answered as they ought to be.
func (s *step) achieved() float64 { return float64(s.Acknowledged) / max(s.Seconds, 0.001) }

// kept says that the service kept up with the rate.
func (s *step) kept() bool { return s.Failed() == 0 && s.Latency.P99 <= kneeLatency }

// load is a load at a rate for a while, recorded by r.
type load func(ctx context.Context, rate float64, duration time.Duration, r *loadtest.Recorder) error

// climb follows a steady load with steps that are faster and faster, until one is not kept up
// with, and returns them all, the steady load first. A step that is not kept up with is tried
// once more, for it may be the machine that was busy; only the second try then counts.
func (s *steady) climb(ctx context.Context, each time.Duration) ([]step, error) {
	steps := []step{{Offered: s.rate, Seconds: s.seconds, Figures: s.total.Figures()}}
	for rate := s.rate * climbFactor; len(steps) <= climbSteps && ctx.Err() == nil; rate *= climbFactor {
		s.pulse.enter(fmt.Sprintf("up to the knee: %.0f/s", rate))
		next, err := s.step(ctx, rate, each)
		if err == nil && !next.kept() && ctx.Err() == nil {
			next, err = s.step(ctx, rate, each)
		}
		if err != nil || ctx.Err() != nil { // a step that was cut short says nothing
			return steps, err
		}
		if steps = append(steps, next); !next.kept() {
			break
		}
	}
	return steps, nil
}

func (s *steady) step(ctx context.Context, rate float64, each time.Duration) (step, error) {
	r := s.recorder()
	started := time.Now()
	err := s.load(ctx, rate, each, r)
	return step{Offered: rate, Seconds: time.Since(started).Seconds(), Figures: r.Figures()}, err
}

// knee is the last of the steps that was kept up with, nil when none was.
func knee(steps []step) *step {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].kept() {
			return &steps[i]
		}
	}
	return nil
}

// stepCharts show the steps: latency, and what was achieved, over what was offered.
func stepCharts(of string, steps []step) []report.Chart {
	line := func(name string, y func(*step) float64) report.Series {
		s := report.Series{Name: name}
		for i := range steps {
			s.XY = append(s.XY, [2]float64{steps[i].Offered, y(&steps[i])})
		}
		return s
	}
	percentile := func(name string, of func(loadtest.Latency) time.Duration) report.Series {
		return line(name, func(s *step) float64 { return milliseconds(of(s.Latency)) })
	}
	offered := line("offered", func(s *step) float64 { return s.Offered })
	offered.Predicted = true
	x := report.Axis{Label: "offered rate", Unit: "/s"}
	var marks []report.Mark
	if k := knee(steps); k != nil {
		marks = []report.Mark{{At: k.Offered, Name: "knee"}}
	}
	return []report.Chart{
		{
			Title: "How long " + of + " take as their rate rises", X: x, Marks: marks,
			Y: report.Axis{Label: "latency", Unit: "ms", Log: true},
			Series: []report.Series{
				percentile("p50", func(l loadtest.Latency) time.Duration { return l.P50 }),
				percentile("p99", func(l loadtest.Latency) time.Duration { return l.P99 }),
				percentile("p99.9", func(l loadtest.Latency) time.Duration { return l.P999 }),
			},
		},
		{
			Title: "How many " + of + " were answered of those that were due", X: x, Marks: marks,
			Y:      report.Axis{Label: "achieved rate", Unit: "/s"},
			Series: []report.Series{line("achieved", (*step).achieved), offered},
		},
	}
}

// stepTable has the figures of every step.
func stepTable(title string, steps []step) report.Table {
	t := report.Table{Title: title, Columns: []string{"offered", "achieved", "p50", "p99", "p99.9", "slowest", "failed or unsent", "kept up"}}
	for i := range steps {
		s := &steps[i]
		yes := "yes"
		if !s.kept() {
			yes = "no"
		}
		t.Rows = append(t.Rows, []string{
			fmt.Sprintf("%.0f/s", s.Offered), fmt.Sprintf("%.0f/s", s.achieved()), ms(s.Latency.P50), ms(s.Latency.P99),
			ms(s.Latency.P999), ms(s.Latency.Max), fmt.Sprint(s.Failed()), yes,
		})
	}
	return t
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", milliseconds(d)) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
