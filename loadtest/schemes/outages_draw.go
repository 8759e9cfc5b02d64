package schemes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"keypool/loadtest/report"
)

// The claims of the part.
const (
	claimPolite   = "refusals say when to come again"
	claimComeBack = "each recovers by itself"
	claimLocal    = "local keys bridge a moment"
	claimStop     = "a counter stops at once"
	claimOne      = "one ticket database is enough"
	claimFallback = "the fallback makes every link"
)

const (
	leastLocal = 0.4 // s that local keys last at the least: a batch of a hundred, nearly
	mostStop   = 0.3 // s that a counter serves without its supply at the most
	mostBack   = 4.5 // s until the scheme itself serves again
)

func (e *experiment) enterOutages() {
	e.Summary = fmt.Sprintf("Under %d creations a second each, whatever a scheme needs is killed (SIGKILL) for some seconds and started again: Redis, which keeps nothing; the key "+
		"service; one ticket database and then both. In the end, under %d a second each, it is the PostgreSQL with all the links. Who is served, by what, and when again?", outageRate, crowdRate)
	e.Claim(claimLocal, fmt.Sprintf("Without their supply, schemes that take keys ahead go on for %.1f s at the least by what they hold.", leastLocal), "s")
	e.Claim(claimStop, fmt.Sprintf("INCR and tickets go on for %.1f s at the most.", mostStop), "s")
	e.Claim(claimOne, "With one of two ticket databases gone, every creation is served.", "creations")
	e.Claim(claimFallback, "With the default fallback, every creation is served while anything but the links' database is away.", "creations")
	e.Claim(claimPolite, "Whatever is not served is refused by a 503 with Retry-After.", "kinds of refusals")
	e.Claim(claimComeBack, fmt.Sprintf("Each scheme serves every creation by itself again within %.1f s of the restart of what was killed, without anybody's help.", mostBack), "s")
	e.ClaimLinks()
	e.Settings = map[string]string{"FALLBACK": "none, and random where it says so", "KGS_BATCH_MIN": "100", "Redis": "without persistence", "creations": fmt.Sprintf("%d/s each, %d/s while PostgreSQL is killed", outageRate, crowdRate)}
	e.Notes = []string{
		"Where a code came from is what its row in the database says. Keys that last are those in memory when the supply is killed; how many these are depends on the rate before it.",
		fmt.Sprintf("PostgreSQL holds the links too, so while it is away nobody can make any. All %d-odd servers are on it then, and come back at once.", len(e.schemes)),
		"Redis comes back empty: the pool is made anew, and the counter begins anew, over links that there are. What that costs a counter is conflicts, each with a longer step to the next number.",
		"A creation counts by when it was due; back again is the last one after the restart began that the scheme did not serve itself.",
	}
}

// eachOutage calls do for everything that was found out, in the order of the schemes.
func (e *experiment) eachOutage(do func(s scheme, o outageFound)) {
	for _, s := range e.schemes {
		for _, o := range e.found[s.name].outages {
			do(s, o)
		}
	}
}

// sums is what all outages come to.
type sums struct {
	local, stop, back  []time.Duration // of pools; of counters; of all
	late, rude         []string        // those that had not come back; refusals that say too little, or no answer
	kinds              int             // of refusals, also those
	ones, unservedOne  int             // outages of one ticket database, and creations that it cost
	falls, unservedAll int             // outages with a fallback, and creations that they cost
}

func (a *sums) add(s scheme, o outageFound) {
	what := fmt.Sprintf("%s without %s, FALLBACK=%s", s.name, o.victim, o.fallback)
	a.kinds += len(o.answers)
	if !o.polite() {
		a.rude = append(a.rude, fmt.Sprintf("%s: %s", what, strings.Join(o.answers, "; ")))
	}
	if o.victim == victimEven { // then the other one goes, and there is no coming back
		a.ones++
		a.unservedOne += o.all() - o.served
		return
	}
	a.back = append(a.back, o.back)
	if !o.returned {
		a.late = append(a.late, what)
	}
	switch {
	case o.victim == victimPostgres:
	case o.fallback == "random":
		a.falls++
		a.unservedAll += o.refused + o.unknown
	case s.pooled:
		a.local = append(a.local, o.local)
	case s.asks:
		a.stop = append(a.stop, o.local)
	}
}

func (e *experiment) judgeOutages() {
	var a sums
	e.eachOutage(a.add)
	if len(a.local) > 0 {
		e.AtLeast(claimLocal, leastLocal, slices.Min(a.local).Seconds())
	}
	if len(a.stop) > 0 {
		e.AtMost(claimStop, mostStop, slices.Max(a.stop).Seconds())
	}
	if a.ones > 0 {
		e.None(claimOne, int64(a.unservedOne), "%d creations were not", a.unservedOne)
	}
	if a.falls > 0 {
		e.None(claimFallback, int64(a.unservedAll), "%d creations were not", a.unservedAll)
	}
	if a.kinds > 0 {
		e.None(claimPolite, int64(len(a.rude)), "of %d kinds, %d are others%s", a.kinds, len(a.rude), reasons(a.rude))
	}
	if len(a.back) > 0 {
		worst := slices.Max(a.back).Seconds()
		e.Figures(claimComeBack, mostBack, worst)
		e.Judge(claimComeBack, len(a.late) == 0 && worst <= mostBack,
			"the last one after %.1f s; %d had not come back by the end%s", worst, len(a.late), reasons(a.late))
	}
	e.leave(claimLocal, claimStop, claimOne, claimFallback, claimPolite, claimComeBack)
}

func (e *experiment) drawOutages() {
	t := report.Table{Title: "While it is away, and after it", Columns: []string{
		"scheme", "killed", "FALLBACK", "creations while it is away", "refusals", "local keys last", "back again after",
	}}
	e.eachOutage(func(s scheme, o outageFound) {
		t.Rows = append(t.Rows, []string{s.name, o.victim, o.fallback, o.String(), answered(o.answers), o.lasting(), o.again()})
	})
	local := row{name: "local keys last"}
	e.eachOutage(func(s scheme, o outageFound) {
		if o.victim != victimPostgres && o.victim != victimEven && o.fallback == "none" {
			local.add(s.name, o.local.Seconds())
		}
	})
	e.Tables = []report.Table{t}
	if len(local.points) > 0 {
		e.Charts = []report.Chart{e.rows("How long creations go on without the supply", "time", "s", local)}
	}
}

func answered(answers []string) string {
	if len(answers) == 0 {
		return unknown
	}
	return strings.Join(answers, "; ")
}

// lasting is how long the scheme itself went on.
func (o outageFound) lasting() string {
	if o.served == o.all() {
		return "all the time"
	}
	return fmt.Sprintf("%.1f s", o.local.Seconds())
}

// again is when it served by itself again.
func (o outageFound) again() string {
	switch {
	case o.victim == victimEven:
		return unknown
	case !o.returned:
		return "not by the end"
	}
	return fmt.Sprintf("%.1f s", o.back.Seconds())
}
