package schemes

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
	"keypool/loadtest/wrk"
)

const (
	// steadyRate is in creations a second.
	steadyRate = 500
	// steadyWarmUp is how long the steady load runs before it is measured.
	steadyWarmUp = 300 * time.Millisecond

	mostPooled = 0.05 // calls a creation of those that take keys many at a time
	leastAsked = 0.95 // of those that ask for each
	mostAlone  = 0.01 // of those that ask nobody
)

// The claims of the part.
const (
	claimPooled = "pools are called for many keys at a time"
	claimAsked  = "counters are called for each key"
	claimAlone  = "other schemes call nobody"
)

// speed times creations: as many as go on 64 connections, and how long they take at a rate
// that all can keep.
func (e *experiment) speed(ctx context.Context) error {
	e.enterSpeed()
	runs := e.everybody(ctx)
	defer func() { e.dismiss(runs) }()
	idle, err := e.idling(ctx, runs)
	if err != nil {
		return err
	}
	subjects := make([]rounds.Subject, 0, 2*len(runs))
	for _, r := range runs {
		subjects = append(subjects,
			e.subject(r, "creations", rounds.PerSecond, func(ctx context.Context) (float64, error) { return e.flatOut(ctx, r, idle[r.name]) }),
			e.subject(r, "p99", "ms", func(ctx context.Context) (float64, error) { return steady(ctx, r, e.Each) }))
	}
	// Each error is on record already.
	figures, _ := rounds.Alternate(ctx, e.Rounds, func(line string) { e.enter("%s", line) }, subjects...)
	if ctx.Err() != nil {
		return nil
	}
	e.keepFigures(runs, figures)
	for _, r := range runs {
		if r.redis != "" {
			e.keepMemory(ctx, r)
		}
	}
	e.judgeSpeed()
	e.drawSpeed()
	return nil
}

// subject is what is measured of a scheme in a round; a failure is on record.
func (e *experiment) subject(r *running, what, unit string, measure func(context.Context) (float64, error)) rounds.Subject {
	return rounds.Subject{Name: r.name + ", " + what, Unit: unit, Measure: func(ctx context.Context) (float64, error) {
		figure, err := measure(ctx)
		if err != nil && ctx.Err() == nil {
			e.fail(r.name, fmt.Errorf("%s: %w", what, err))
		}
		return figure, err
	}}
}

// flatOut is how many creations a second wrk gets, each of a URL of its own, for which there
// must be a row each. What the supply was called meanwhile is kept.
func (e *experiment) flatOut(ctx context.Context, r *running, idle float64) (perSecond float64, err error) {
	rows, err := testbed.CountLinks(ctx, r.links)
	if err != nil {
		return 0, err
	}
	before, err := e.stage.calls(ctx, r)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	tally, err := wrk.Load{
		URL: r.server.Public + "/shorten", Script: "posts", Args: []string{"https://loadtest.example/" + rand.Text() + "/"}, Duration: e.Each,
	}.Run(ctx)
	if err != nil {
		return 0, err
	}
	took := time.Since(begun)
	after, err := e.stage.calls(ctx, r)
	if err != nil {
		return 0, err
	}
	more, err := testbed.CountLinks(ctx, r.links)
	if err == nil && more-rows < tally.Requests {
		err = fmt.Errorf("%d creations were acknowledged and only %d are stored", tally.Requests, more-rows)
	}
	f := e.found[r.name]
	f.calls = append(f.calls, perCreation(after-before, idle, took, tally.Requests))
	return tally.PerSecond(), err
}

// steady is the p99 in milliseconds at the steady rate, from when each creation was due;
// every link is read back.
func steady(ctx context.Context, r *running, lasts time.Duration) (ms float64, err error) {
	figures, _, err := loadtest.Steady(ctx, r.server.Public, steadyWarmUp, loadtest.Schedule{Rate: steadyRate, Duration: lasts})
	return float64(figures.Latency.P99.Microseconds()) / 1000, err
}

// keepFigures takes what the subjects came to, two for each scheme.
func (e *experiment) keepFigures(runs []*running, figures []rounds.Series) {
	best := make(rounds.Series, e.Rounds)
	for i := range runs {
		for round, v := range figures[2*i] {
			best[round] = max(best[round], v)
		}
	}
	for i, r := range runs {
		f := e.found[r.name]
		f.rate, f.p99, f.best = figures[2*i], figures[2*i+1], figures[2*i].Over(best)
		if f.rate == nil {
			f.calls = nil
		}
	}
}

func (e *experiment) enterSpeed() {
	e.Summary = fmt.Sprintf("Creations flat out, by wrk on %d connections that each wait for their answer, and then at a steady %d a second, whatever became of those "+
		"before: %.0f s each, %d rounds, all schemes one after the other in each. Meanwhile it is counted how often each scheme's supply is called.",
		wrk.Connections, steadyRate, e.Each.Seconds(), e.Rounds)
	e.Settings = map[string]string{
		"DATABASE_URL": "postgres://..., synchronous_commit=on, one database each", "FALLBACK": "none", "KGS_POOL_CAPACITY": fmt.Sprint(poolKeys),
	}
	e.Claim(claimPooled, fmt.Sprintf("A scheme that takes keys ahead of use calls its supply less than %.2f times a creation.", mostPooled), "calls")
	e.Claim(claimAsked, "INCR and tickets call their supply once a creation, and each creation waits for it.", "calls")
	e.Claim(claimAlone, "Schemes that need nobody call nobody.", "calls")
	e.Notes = []string{
		"Every creation is of a URL of its own. A figure counts only if no answer was an error and the database has a row for each; at the steady rate every link is read back.",
		"A ratio to the best is that of one round. All servers run all the time; those whose turn it is not do nothing.",
		"Calls: PostgreSQL's own count of statements that are not on links (BEGIN and COMMIT among them), how often Redis read from a socket, and the key service's count of " +
			"requests, less what the same server calls while idle. Keys that are taken ahead are no calls that a creation waits for.",
		"The load is on the same processors as the servers, so all rates are lower than a server alone would have.",
	}
}

func (e *experiment) judgeSpeed() {
	most, least := make(map[string]float64), math.Inf(1)
	for _, s := range e.schemes {
		calls := e.found[s.name].calls
		if len(calls) == 0 {
			continue
		}
		switch {
		case s.pooled:
			most[claimPooled] = max(most[claimPooled], calls.Median())
		case s.asks:
			least = min(least, calls.Median())
		default:
			most[claimAlone] = max(most[claimAlone], calls.Median())
		}
	}
	for claim, bound := range map[string]float64{claimPooled: mostPooled, claimAlone: mostAlone} {
		if v, known := most[claim]; known {
			e.AtMost(claim, bound, v)
		}
	}
	if !math.IsInf(least, 1) {
		e.AtLeast(claimAsked, leastAsked, least)
	}
	e.leave(claimPooled, claimAsked, claimAlone)
}

func (e *experiment) drawSpeed() {
	t := report.Table{Title: "Creations", Columns: []string{
		"scheme", fmt.Sprintf("on %d connections", wrk.Connections), "of the best", fmt.Sprintf("p99 at %d/s", steadyRate), "calls a creation",
	}}
	each, median := row{name: "each round"}, row{name: "median"}
	slow, slowest := row{name: "each round"}, row{name: "median"}
	for _, s := range e.schemes {
		f := e.found[s.name]
		if len(f.rate) == 0 || len(f.p99) == 0 {
			t.Rows = append(t.Rows, blank(s.name, len(t.Columns)))
			continue
		}
		t.Rows = append(t.Rows, []string{
			s.name, f.rate.Spread(rounds.PerSecond), f.best.Spread(rounds.Times), f.p99.Spread("ms"), perCreationText(f.calls.Median()),
		})
		each.add(s.name, f.rate...)
		median.add(s.name, f.rate.Median())
		slow.add(s.name, f.p99...)
		slowest.add(s.name, f.p99.Median())
	}
	e.Tables = []report.Table{t}
	e.Charts = []report.Chart{
		e.rows(fmt.Sprintf("Creations on %d connections", wrk.Connections), "creations", "/s", each, median),
		e.rows(fmt.Sprintf("99 of 100 creations at %d a second took no longer", steadyRate), "p99", "ms", slow, slowest),
	}
}

// perCreationText shows calls a creation.
func perCreationText(calls float64) string {
	if calls >= 0.1 {
		return fmt.Sprintf("%.2f", calls)
	}
	return fmt.Sprintf("%.4f", calls)
}
