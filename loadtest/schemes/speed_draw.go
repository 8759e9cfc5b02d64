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
		"before: %.0f s each, %d rounds, all schemes one after the other in each, which each begins with another one. Meanwhile it is counted how often each scheme's supply is called.",
		wrk.Connections, steadyRate, e.Each.Seconds(), e.Rounds)
	e.Settings = map[string]string{
		"DATABASE_URL": "postgres://..., synchronous_commit=on, one database each", "FALLBACK": "none", "KGS_POOL_CAPACITY": fmt.Sprint(poolKeys),
		"Redis": "without persistence, also under the counter of redis-incr", "ticket databases": "both in the PostgreSQL with the links",
	}
	e.Claim(claimPooled, fmt.Sprintf("A scheme that takes keys ahead of use calls its supply less than %.2f times a creation.", mostPooled), "calls")
	e.Claim(claimAsked, "INCR and tickets call their supply once a creation.", "calls")
	e.Claim(claimAlone, "Schemes that need nobody call nobody.", "calls")
	e.Notes = []string{
		"Every creation is of a URL of its own, and the database must have a row for each that was acknowledged. Refusals are no creations, and told of the worst round; at the " +
			"steady rate every link is read back as well.",
		fmt.Sprintf("Before each load a server's pool, where it tells of one, has time to be nine tenths full again, and before the steady one every server has %.1f s of rest.", e.rest.Seconds()),
		"Links are on disk when they are acknowledged, which the counter of redis-incr never is: a Redis that dies has forgotten it. Both ticket databases share the disk and " +
			"the processors of the links' own; on two machines more, a ticket would cost the way there, and the links' database less.",
		"A ratio to the best is that of one round. All servers run all the time; those whose turn it is not do nothing.",
		"Calls: PostgreSQL's own count of statements that are not on links (BEGIN and COMMIT among them), how often Redis read from a socket, and the key service's count of " +
			"requests, less what the same server calls while idle. Keys that are taken ahead are no calls that a creation waits for.",
		"The load is on the same processors as the servers, so all rates are lower than a server alone would have.",
	}
}

func (e *experiment) judgeSpeed() {
	most := make(map[string]float64)
	asks, asked := false, 1.0 // the median that is farthest from one call
	for _, s := range e.schemes {
		calls := e.found[s.name].calls
		if len(calls) == 0 {
			continue
		}
		switch {
		case s.pooled:
			most[claimPooled] = max(most[claimPooled], calls.Median())
		case s.asks:
			asks = true
			if math.Abs(calls.Median()-1) > math.Abs(asked-1) {
				asked = calls.Median()
			}
		default:
			most[claimAlone] = max(most[claimAlone], calls.Median())
		}
	}
	for claim, bound := range map[string]float64{claimPooled: mostPooled, claimAlone: mostAlone} {
		if v, known := most[claim]; known {
			e.AtMost(claim, bound, v)
		}
	}
	if asks {
		e.Within(claimAsked, 1, asked, askedOff)
	}
	e.leave(claimPooled, claimAsked, claimAlone)
}

func (e *experiment) drawSpeed() {
	t := report.Table{Title: "Creations", Columns: []string{
		"scheme", fmt.Sprintf("on %d connections", wrk.Connections), "of the best", "refused of these",
		fmt.Sprintf("p99 at %d/s", steadyRate), fmt.Sprintf("refused at %d/s", steadyRate), "calls a creation",
	}}
	fast, fastMedian := row{name: "each round"}, row{name: "median"}
	slow, slowMedian := row{name: "each round"}, row{name: "median"}
	for _, s := range e.schemes {
		f := e.found[s.name]
		if len(f.rate) == 0 || len(f.p99) == 0 {
			t.Rows = append(t.Rows, blank(s.name, len(t.Columns)))
			continue
		}
		t.Rows = append(t.Rows, []string{
			s.name, f.rate.Spread(rounds.PerSecond), f.best.Spread(rounds.Times), percent(f.refusedFlat), f.p99.Spread("ms"), percent(f.refused), perCreationText(f.calls.Median()),
		})
		fast.add(s.name, f.rate...)
		fastMedian.add(s.name, f.rate.Median())
		slow.add(s.name, f.p99...)
		slowMedian.add(s.name, f.p99.Median())
	}
	e.Tables = []report.Table{t}
	e.Charts = []report.Chart{
		e.rows(fmt.Sprintf("Creations on %d connections", wrk.Connections), "creations", "/s", fast, fastMedian),
		e.rows(fmt.Sprintf("99 of 100 creations at %d a second took no longer", steadyRate), "p99", "ms", slow, slowMedian),
	}
}

// perCreationText shows calls a creation.
func perCreationText(calls float64) string {
	if calls >= 0.1 {
		return fmt.Sprintf("%.2f", calls)
	}
	return fmt.Sprintf("%.4f", calls)
}
