package schemes

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/scenario"

	"golang.org/x/sync/errgroup"
)

const (
	crashLinks   = 15 // acknowledged before each crash, at the least
	crashClients = 4  // that make links when the server is killed
	// crashPatience bounds the wait for the links before a crash.
	crashPatience = 20 * time.Second
	// mostSkipped is how many numbers a crash may cost a scheme that holds two batches.
	mostSkipped = 250
	// fewSkipped is how many it may cost one that asks for each: those under way, and what a
	// sequence of PostgreSQL writes ahead.
	fewSkipped = 40
)

// The claims of the part.
const (
	claimGapPooled = "a crash costs two batches at the most"
	claimGapAsked  = "counters lose next to nothing"
)

// skippedFound is what a crash costs a scheme.
type skippedFound struct {
	each float64 // numbers a crash
	back string  // as in scheme
}

// then says what becomes of them.
func (s skippedFound) then() string {
	if s.back == "" {
		return "gone for good"
	}
	return "back after " + s.back
}

// String says both in a cell; that they are gone goes without saying.
func (s skippedFound) String() string {
	text := fmt.Sprintf("%.4g", s.each)
	if s.back != "" {
		text += ", " + s.then()
	}
	return text
}

// crashes kills each server that gives out numbers again and again while links are made, and
// then counts the numbers that no link has. The schemes do it side by side.
func (e *experiment) crashes(ctx context.Context) error {
	e.enterCrashes()
	var some []scheme
	for _, s := range e.schemes {
		if s.gaps != nil {
			some = append(some, s)
		}
	}
	runs := e.startAll(ctx, some, setup{settings: []string{"KGS_PERMUTE=false"}})
	defer e.dismiss(runs) // as they are now: also those that it will not go well with
	links, err := newTraffics(runs)
	if err != nil {
		return err
	}
	defer links.close()
	var done atomic.Int64
	runs = beside(ctx, e, runs, called, func(ctx context.Context, r *running) error {
		for range e.plan.crashes {
			if err := crash(ctx, r, links[r]); err != nil {
				return err
			}
			e.enter("crash %d of %d", done.Add(1), e.plan.crashes*len(some))
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	e.read(ctx, runs, links)
	e.JudgeLinks(e.links)
	e.enter("counting")
	beside(ctx, e, runs, called, func(ctx context.Context, r *running) error {
		// In order, so that what it holds goes back and is no gap.
		if err := r.stop(); err != nil {
			return err
		}
		n, err := r.gaps(ctx, e.stage, r)
		if err != nil {
			return err
		}
		e.found[r.name].skipped = &skippedFound{each: float64(n) / float64(e.plan.crashes), back: r.back}
		return nil
	})
	e.judgeCrashes()
	e.drawCrashes()
	return nil
}

// crash kills the server in the middle of links, and starts it again.
func crash(ctx context.Context, r *running, t *scenario.Traffic) error {
	making, stop := context.WithTimeout(ctx, crashPatience)
	defer stop()
	var clients errgroup.Group
	enough := make(chan struct{})
	var made atomic.Int64
	for range crashClients {
		clients.Go(func() error {
			for making.Err() == nil {
				outcome, err := t.One(making)
				if err != nil {
					return err
				}
				if outcome.State == loadtest.Acknowledged && made.Add(1) == crashLinks {
					close(enough)
				}
			}
			return nil
		})
	}
	select {
	case <-enough:
	case <-making.Done():
	}
	err := r.server.Kill()
	stop()
	if failed := clients.Wait(); failed != nil {
		return failed
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	if made.Load() < crashLinks {
		return fmt.Errorf("it made only %d links in %v", made.Load(), crashPatience)
	}
	return r.server.Restart(ctx)
}

func (e *experiment) enterCrashes() {
	e.Summary = fmt.Sprintf("The server is killed %d times (SIGKILL) while %d clients make links, each time after %d of them at the least, and started again. In the end it "+
		"stops in order, and the numbers that no link has are counted. Gaps are allowed; a code that is given twice is not.", e.plan.crashes, crashClients, crashLinks)
	e.Claim(claimGapPooled, "A crash costs a scheme that takes keys ahead no more than what the server held: two batches of about a hundred.", "numbers a crash")
	e.Claim(claimGapAsked, "A crash costs a counter what was under way, and tickets what their sequences write ahead.", "numbers a crash")
	e.ClaimLinks()
	e.Settings = map[string]string{"FALLBACK": "none", "KGS_PERMUTE": "false", "KGS_BATCH_MIN": "100"}
	e.Notes = []string{
		"What the pools and the ledger skip is what `shortener audit` has as abandoned, or as in batches although nobody runs any more. Codes of the others are read as numbers: what is " +
			"missing between the least and the greatest is skipped, of tickets among the odd and the even ones; the key service does without its permutation for that. A pool in " +
			"PostgreSQL draws its keys, and what it has as used or reserved and no link has is counted.",
		"What a crash skips is gone for good: a lease of the key service that has expired gives nothing back either. Only keys that were reserved in PostgreSQL are given out again, " +
			"ten minutes after they were taken by a server that is dead; here they are counted and not waited for.",
		"Snowflake, hash, UUID and chance have no numbers to skip.",
	}
}

func (e *experiment) judgeCrashes() {
	most := make(map[string]float64)
	for _, s := range e.schemes {
		v := e.found[s.name].skipped
		if v == nil {
			continue
		}
		claim := claimGapPooled
		if s.asks {
			claim = claimGapAsked
		}
		most[claim] = max(most[claim], v.each)
	}
	for claim, bound := range map[string]float64{claimGapPooled: mostSkipped, claimGapAsked: fewSkipped} {
		if v, known := most[claim]; known {
			e.AtMost(claim, bound, v)
		}
	}
	e.leave(claimGapPooled, claimGapAsked)
}

func (e *experiment) drawCrashes() {
	t := report.Table{Title: fmt.Sprintf("Numbers skipped in %d crashes", e.plan.crashes), Columns: []string{"scheme", "a crash", "and then they are"}}
	each := row{name: "numbers"}
	for _, s := range e.schemes {
		v := e.found[s.name].skipped
		if v == nil {
			continue
		}
		t.Rows = append(t.Rows, []string{s.name, fmt.Sprintf("%.4g", v.each), v.then()})
		each.add(s.name, v.each)
	}
	e.Tables = []report.Table{t}
	e.Charts = []report.Chart{e.rows("Numbers that a crash skips", "numbers", "a crash", each)}
}
