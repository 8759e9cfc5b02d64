package schemes

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"keypool/loadtest/report"
	"keypool/loadtest/rounds"
	"keypool/loadtest/wrk"
)

// claimInTime is what the last part claims of the whole.
const claimInTime = "in time"

// The two that the last table sets against each other.
const (
	incrScheme = "redis-incr"
	poolScheme = "redis-pool"
)

// summary puts what was found out by the other parts into two tables.
func (e *experiment) summary(context.Context) error {
	e.enterSummary()
	e.judgeSummary()
	e.Tables = []report.Table{e.overview()}
	if e.found[incrScheme] != nil && e.found[poolScheme] != nil {
		e.Tables = append(e.Tables, e.duel())
	}
	return nil
}

func (e *experiment) enterSummary() {
	e.Summary = "One row a scheme, and then the two that are argued about most, one against the other. All figures are from the parts above."
	if e.usual {
		e.Claim(claimInTime, fmt.Sprintf("All of this took less than %.0f minutes.", Limit.Minutes()), "s")
	}
}

func (e *experiment) judgeSummary() {
	if !e.usual {
		return
	}
	took := time.Since(e.Comparison.started).Seconds()
	e.AtMost(claimInTime, Limit.Seconds(), math.Round(took))
	e.Excuse(claimInTime, e.others/took)
}

// overview is a row for each scheme.
func (e *experiment) overview() report.Table {
	t := report.Table{Title: "All schemes", Columns: []string{
		"scheme", "creations/s", "of the best", "p99 ms", "calls a creation", "characters", "guessed of 100", "ascending", fmt.Sprintf("attempts at f = %g", fullest()),
		"index bytes a link", "skipped a crash", "without its own supply",
	}}
	for _, s := range e.schemes {
		f := e.found[s.name]
		cells := []string{s.name}
		cells = append(cells, f.speedCells()...)
		cells = append(cells, f.codeCells()...)
		t.Rows = append(t.Rows, append(cells, f.attemptsCell(), f.indexCell(), f.skippedCell(), f.outageCell()))
	}
	return t
}

func (f *findings) speedCells() []string {
	if len(f.rate) == 0 || len(f.p99) == 0 {
		return []string{unknown, unknown, unknown, unknown}
	}
	return []string{
		commas(int64(math.Round(f.rate.Median()))), fmt.Sprintf("%.2f", f.best.Median()), fmt.Sprintf("%.1f", f.p99.Median()), perCreationText(f.calls.Median()),
	}
}

func (f *findings) codeCells() []string {
	if f.codes == nil {
		return []string{unknown, unknown, unknown}
	}
	return []string{f.codes.length(), fmt.Sprintf("%.4g", f.codes.guessed.few), percent(f.codes.ascending)}
}

func (f *findings) attemptsCell() string {
	if f.space == nil {
		return unknown
	}
	return attemptsText(f.space.attempts[len(f.space.attempts)-1])
}

func (f *findings) indexCell() string {
	if f.index == nil {
		return unknown
	}
	return fmt.Sprintf("%.1f", f.index.bytes)
}

func (f *findings) skippedCell() string {
	if f.skipped == nil {
		return unknown
	}
	return f.skipped.String()
}

// outageCell is what happens without what only this scheme needs, and without a fallback.
func (f *findings) outageCell() string {
	var parts []string
	needsNone := len(f.outages) > 0
	for _, o := range f.outages {
		if o.victim == victimPostgres || o.fallback != "none" {
			continue
		}
		needsNone = false
		parts = append(parts, fmt.Sprintf("%s: %s", o.victim, o.lasting()))
	}
	if needsNone {
		return "needs none"
	}
	if len(parts) == 0 {
		return unknown
	}
	return strings.Join(parts, "; ")
}

// duel is INCR against KGS, a row for each thing that one of them is praised or blamed for.
func (e *experiment) duel() report.Table {
	incr, pool := e.found[incrScheme], e.found[poolScheme]
	t := report.Table{Title: "INCR against KGS", Columns: []string{"", "INCR (" + incrScheme + ")", "KGS (" + poolScheme + ")"}}
	line := func(what string, cell func(*findings) string) {
		t.Rows = append(t.Rows, []string{what, cell(incr), cell(pool)})
	}
	line("calls of Redis and ledger a creation", func(f *findings) string { return f.speedCells()[3] })
	line(fmt.Sprintf("creations/s on %d connections", wrk.Connections), func(f *findings) string { return spread(f.rate, rounds.PerSecond) })
	line("of the best scheme", func(f *findings) string { return spread(f.best, rounds.Times) })
	line(fmt.Sprintf("p99 at %d/s", steadyRate), func(f *findings) string { return spread(f.p99, "ms") })
	line("Redis killed: the scheme itself goes on for", func(f *findings) string { return f.withoutRedis("none", outageFound.lasting) })
	line("and then", func(f *findings) string {
		return f.withoutRedis("none", func(o outageFound) string { return answered(o.answers) })
	})
	line("with the default fallback", func(f *findings) string {
		return f.withoutRedis("random", func(o outageFound) string { return o.String() })
	})
	line("back by itself after", func(f *findings) string { return f.withoutRedis("none", outageFound.again) })
	line(fmt.Sprintf("of the next %d codes, named with %d guesses", nextCodes, fewGuesses), func(f *findings) string { return f.codeCells()[1] })
	line("codes above the one before", func(f *findings) string { return f.codeCells()[2] })
	line("characters", func(f *findings) string { return f.codeCells()[0] })
	line(fmt.Sprintf("attempts a creation where %s of the codes are in use", percent(fullest())), (*findings).attemptsCell)
	line("numbers skipped a crash of the server", (*findings).skippedCell)
	line("index bytes a link after a million", (*findings).indexCell)
	line("log bytes a link", func(f *findings) string {
		if f.index == nil {
			return unknown
		}
		return fmt.Sprintf("%.0f", f.index.wal)
	})
	line("memory of Redis", func(f *findings) string {
		if f.memory == nil {
			return unknown
		}
		return f.memory.String()
	})
	return t
}

func spread(s rounds.Series, unit string) string {
	if len(s) == 0 {
		return unknown
	}
	return s.Spread(unit)
}

// withoutRedis is what is told of the outage of Redis under that setting of FALLBACK.
func (f *findings) withoutRedis(fallback string, tell func(outageFound) string) string {
	for _, o := range f.outages {
		if o.victim == victimRedis && o.fallback == fallback {
			return tell(o)
		}
	}
	return unknown
}
