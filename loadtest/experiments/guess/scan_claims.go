package guess

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/report"
)

// The documented limits of misses from one address.
const (
	missBurst = 200 // misses that are allowed at once
	missRate  = 50  // further misses that are allowed per second
)

// Names of claims.
const (
	unguessed = "guesses hit by chance only"
	walked    = "a plain counter is guessed"
	answered  = "every guess answered"
	throttled = "misses limited"
)

// chance is the greatest probability that a sound service has fewer hits than the lower bound. It is
// also the greatest probability that a sound service has more hits than the upper bound.
const chance = 0.0005

func scanClaims() []experiment.Claim[scanRecord] {
	on := func(name, text, unit string, judge func(*scanRecord) experiment.Verdict) experiment.Claim[scanRecord] {
		return experiment.Claim[scanRecord]{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: judge}.
			When(func(r *scanRecord) bool { return r.elapsed > 0 })
	}
	return []experiment.Claim[scanRecord]{
		on(unguessed, "Guesses next to known codes hit as many links as chance predicts. The prediction is the number of guesses times the share of codes in use.", "links", judgeUnguessed),
		on(walked, "If the codes are the numbers of a plain counter, each guess of a number that is already given out hits a link.", "links", func(r *scanRecord) experiment.Verdict {
			return experiment.Within(r.counter.consecutive(), float64(r.counter.answers.hits), 0.02)
		}),
		on(answered, "The service answers every guess if each guess comes from another address.", "guesses", func(r *scanRecord) experiment.Verdict {
			guesses := int64(len(r.permuted.guesses) + len(r.counter.guesses))
			decided := r.permuted.answers.decided() + r.counter.answers.decided()
			other := cmp.Or(r.permuted.answers.refusal, r.counter.answers.refusal)
			if other != "" {
				other = "; the first other answer was " + other
			}
			return experiment.None(guesses-decided, "%d of %d guesses were answered with status 302, 404 or 410%s", decided, guesses, other)
		}),
		on(throttled, fmt.Sprintf("The service lets one address request at most %d unknown codes at once, and %d more per second. It refuses further requests of this address.", missBurst, missRate),
			"misses", judgeThrottled),
	}
}

func scan() *experiment.Experiment {
	return experiment.Define(experiment.Definition[scanRecord]{
		Name: "guess/scan", Title: "Guesses next to known codes",
		Summary: "An attacker knows some codes, for example the codes of links that the attacker made, and tries the codes before and after each of them. " +
			"If codes are consecutive numbers, nearly every guess hits a link. If the numbers are permuted with a secret key, a guess " +
			"near a known code hits no more often than any other guess.",
		Suites: []experiment.Suite{experiment.Nightly, experiment.Full}, Run: runScan, Show: showScan,
		Claims:   scanClaims(),
		Controls: []experiment.Control{{Settings: []string{"KGS_PERMUTE=false"}, Refutes: unguessed}},
	})
}

func judgeUnguessed(r *scanRecord) experiment.Verdict {
	v, want := &r.permuted, r.permuted.byChance(r.plan)
	lo, hi := likely(want)
	return experiment.Holds(lo <= v.answers.hits && v.answers.hits <= hi,
		"%d of %d guesses hit a link; chance predicts %.1f hits; in 999 of 1000 runs, the number of hits is from %d to %d", v.answers.hits, v.answers.decided(), want, lo, hi).
		Figures(want, float64(v.answers.hits))
}

// judgeThrottled judges the number of misses from one address. The service must have refused guesses too, because a
// service that does not answer also has few misses.
func judgeThrottled(r *scanRecord) experiment.Verdict {
	a, seconds := &r.alone, r.elapsed.Seconds()
	if a.refused+a.failed == 0 && a.misses <= missBurst { // the machine is too slow to reach the limit
		return experiment.NotJudged("the guesses did not reach the limit: one address had only %d misses in %.1f s", a.misses, seconds)
	}
	most := missBurst + missRate*seconds + scanWidth
	return experiment.Holds(float64(a.misses) <= most && a.refused > 0 && a.failed == 0,
		"one address had %d misses in %.1f s, and at most %.0f are allowed; %d guesses were refused, and %d got no answer or an unexpected answer",
		a.misses, seconds, most, a.refused, a.failed).Figures(most, float64(a.misses))
}

// byChance returns how many guesses would hit a link if links had random codes. It leaves out the known codes,
// because no guess is a known code.
func (v *victim) byChance(plan scanPlan) float64 {
	unknown := float64(sources.FormOfLength(plan.length).Size.Int64() - int64(plan.known))
	return float64(len(v.guesses)) * float64(len(v.codes)-plan.known) / unknown
}

// consecutive returns how many guesses hit a link if links have consecutive numbers.
func (v *victim) consecutive() (n float64) {
	first := slices.Min(v.codes)
	for _, guess := range v.guesses {
		if guess >= first && guess < first+int64(len(v.codes)) {
			n++
		}
	}
	return n
}

// likely returns bounds for a Poisson variable with the given mean. The variable is below lo with at most
// the probability chance, and it is above hi with at most the same probability.
func likely(mean float64) (lo, hi int64) {
	const sigmas, large = 3.29, 200 // above large, the normal distribution is used
	if mean > large {
		spread := sigmas * math.Sqrt(mean)
		return int64(mean - spread), int64(mean + spread)
	}
	term, below := math.Exp(-mean), 0.0 // the probabilities of n, and of less than n
	lo = -1
	for n := int64(0); ; n++ {
		below += term
		if lo < 0 && below > chance {
			lo = n
		}
		if below >= 1-chance {
			return lo, n
		}
		term *= mean / float64(n+1)
	}
}

func showScan(r *scanRecord, e *report.Experiment) {
	p := r.plan
	e.Settings = map[string]string{
		"KEY_SOURCE": "redis-pool", "CODE_LENGTH": fmt.Sprint(p.length), "links on each service": fmt.Sprint(p.links),
		"codes known": fmt.Sprint(p.known), "guesses on each side of a known code": fmt.Sprint(p.reach),
		"KGS_PERMUTE": "true, and false for the plain counter", "TRUSTED_PROXIES": "127.0.0.1/32", "DATABASE_URL": "sqlite:...",
	}
	e.Notes = []string{
		fmt.Sprintf("The service refuses an address with more than %d misses at once and %d per second. Therefore each guess comes from another address, as "+
			"from a botnet. The harness sends this client address in X-Forwarded-For, as a reverse proxy would. Only the last claim is about one address.", missBurst, missRate),
		"The plain counter is a service with KGS_PERMUTE=false. Its codes are consecutive numbers in base62, as those of a counter in Redis (INCR) are.",
	}
	if r.elapsed == 0 {
		return
	}
	e.Notes = append(e.Notes, fmt.Sprintf("From one address, %.1f s of guesses gave %d misses, %d hits and %d refusals.",
		r.elapsed.Seconds(), r.alone.misses, r.alone.hits, r.alone.refused))
	table := report.Table{Title: "Guesses next to known codes", Columns: []string{"codes", "links", "guesses", "hits predicted", "hits"}}
	add := func(name string, v *victim, predicted float64) {
		table.Rows = append(table.Rows, []string{
			name, fmt.Sprint(len(v.codes)), fmt.Sprint(v.answers.decided()), fmt.Sprintf("%.1f", predicted), fmt.Sprint(v.answers.hits),
		})
	}
	add("permuted", &r.permuted, r.permuted.byChance(p))
	add("plain counter", &r.counter, r.counter.consecutive())
	e.Tables = []report.Table{table}
}
