package schemes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/scenario"
)

// experiment is one part under way.
type experiment struct {
	scenario.Part
	*Comparison
	part    part
	live    func(scenario.Live)
	started time.Time
	links   loadtest.Verdict // on what was read back so far

	mu     sync.Mutex
	failed []string // schemes, each with what went wrong
}

// claimMeasured is what every part claims that measures schemes.
const claimMeasured = "every scheme measured"

// execute runs a part. What it found out until an early end, or an error, is in the result.
func (c *Comparison) execute(ctx context.Context, r *scenario.Run, p part) (report.Scenario, error) {
	e := &experiment{Comparison: c, part: p, live: r.Live, started: time.Now()}
	if p.measures {
		e.Claim(claimMeasured, "Every scheme was measured.", "schemes")
	}
	e.enter("starting")
	if c.stage == nil {
		var err error
		if c.stage, err = newStage(ctx, c.Programs); err != nil {
			return e.Scenario, err
		}
	}
	others, err := scenario.Besides(ctx, func() error { return p.run(e, ctx) })
	c.others += others * time.Since(e.started).Seconds()
	if p.measures && err == nil && ctx.Err() == nil {
		e.None(claimMeasured, int64(len(e.failed)), "of %d schemes %d could not be measured%s", len(c.schemes), len(e.failed), reasons(e.failed))
	}
	return e.Scenario, err
}

func reasons(failed []string) string {
	if len(failed) == 0 {
		return ""
	}
	return ": " + strings.Join(failed, "; ")
}

// leave says of claims that nothing has judged why nothing did.
func (e *experiment) leave(claims ...string) {
	for _, c := range e.Claims {
		if slices.Contains(claims, c.Name) && c.Verdict == report.NotJudged {
			e.CannotJudge(c.Name, "no scheme that it is about was measured")
		}
	}
}

// enter begins a phase of the part.
func (e *experiment) enter(format string, args ...any) {
	done := min(time.Since(e.started).Seconds()/e.part.lasts.Seconds(), 0.99)
	e.live(scenario.Live{Scenario: e.part.name, Phase: fmt.Sprintf(format, args...), Done: done})
}

// fail records that a scheme could not be measured, which is no reason to stop. It may be
// called concurrently.
func (e *experiment) fail(name string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.ContainsFunc(e.failed, func(f string) bool { return strings.HasPrefix(f, name+": ") }) {
		e.failed = append(e.failed, name+": "+err.Error())
	}
}

// beside does the same with several schemes side by side, and returns those with which it
// went well. It is not for what is timed.
func beside[T any](ctx context.Context, e *experiment, all []T, name func(T) string, do func(context.Context, T) error) []T {
	ok := make([]bool, len(all))
	var wait sync.WaitGroup
	for i, one := range all {
		wait.Go(func() {
			err := do(ctx, one)
			if ok[i] = err == nil; err != nil && ctx.Err() == nil {
				e.fail(name(one), err)
			}
		})
	}
	wait.Wait()
	var well []T
	for i, one := range all {
		if ok[i] {
			well = append(well, one)
		}
	}
	return well
}

// everybody are all schemes running, as they were started when it was first asked for. Those
// that could not be started then are on record each time.
func (e *experiment) everybody(ctx context.Context) []*running {
	if e.runs == nil {
		e.runs = e.startAll(ctx, e.schemes, setup{})
		return e.runs
	}
	for _, s := range e.schemes {
		if !slices.ContainsFunc(e.runs, func(r *running) bool { return r.name == s.name }) {
			e.fail(s.name, errors.New("it could not be started in an earlier part"))
		}
	}
	return e.runs
}

// startAll starts the schemes; those that cannot be started are on record.
func (e *experiment) startAll(ctx context.Context, schemes []scheme, how setup) []*running {
	var runs []*running
	for _, s := range schemes {
		e.enter("starting %s", s.name)
		r, err := e.stage.start(ctx, s, how)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			e.fail(s.name, err)
			continue
		}
		runs = append(runs, r)
	}
	return runs
}

// dismiss kills the servers of everybody.
func (e *experiment) dismiss(runs []*running) {
	for _, r := range runs {
		if err := r.kill(); err != nil {
			e.fail(r.name, err)
		}
	}
}

// called is how a scheme that runs is called.
func called(r *running) string { return r.name }
