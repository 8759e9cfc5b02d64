package schemes

import (
	"fmt"
	"math"

	"keypool/loadtest/report"
	"keypool/loadtest/rounds"
	"keypool/loadtest/wrk"
)

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
		"Every creation is of a URL of its own, and the database must have a row for each that was acknowledged. Refusals are no creations, and told of the worst round; at the " +
			"steady rate, which follows right after, every link is read back.",
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
		"scheme", fmt.Sprintf("on %d connections", wrk.Connections), "of the best", "refused then", fmt.Sprintf("p99 at %d/s", steadyRate), "refused then", "calls a creation",
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
			s.name, f.rate.Spread(rounds.PerSecond), f.best.Spread(rounds.Times), percent(f.refusedFlat), f.p99.Spread("ms"), percent(f.refused), perCreationText(f.calls.Median()),
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
