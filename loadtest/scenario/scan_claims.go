package scenario

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"keypool/kgs/codespace"
	"keypool/loadtest/report"
)

// What the service allows one address, as its documentation has it: so many misses at
// once, and so many a second.
const (
	scanBurst = 200
	scanRate  = 50
)

// The claims of the scenario.
const (
	claimUnguessed = "guesses are worth no more than chance"
	claimCounter   = "a plain counter is walked"
	claimAnswered  = "every guess answered"
	claimThrottle  = "one address is slowed down"
)

// chance is how unlikely hits have to be on either side for them not to be chance.
const chance = 0.0005

func (s *scanRun) enterClaims() {
	s.Summary = fmt.Sprintf("An attacker knows the codes of %d links, say because they are his own, and tries the %d codes before and "+
		"after each of them. Where codes are a counter in disguise, he finds nearly a link a guess. Where the counter is permuted under a "+
		"secret, he may as well guess anywhere.", s.known, s.reach)
	s.Settings = map[string]string{
		"KEY_SOURCE": "redis-pool", "CODE_LENGTH": fmt.Sprint(s.length), "links on each service": fmt.Sprint(s.links),
		"KGS_PERMUTE": "true, and false for the plain counter", "TRUSTED_PROXIES": "127.0.0.1/32", "DATABASE_URL": "sqlite:...",
	}
	s.Notes = []string{
		fmt.Sprintf("The service refuses an address that misses more than %d codes at once and %d a second. So each guess comes from another "+
			"address, as from a botnet: the harness plays the reverse proxy that says so. The last claim does without.", scanBurst, scanRate),
		"KGS_PERMUTE=false hands out what INCR would: the numbers in their order, in base 62.",
	}
	s.Claim(claimUnguessed, "As many guesses next to known codes hit a link as chance brings: guesses times the share of codes in use.", "links")
	s.Claim(claimCounter, "The same guesses at a plain counter hit a link wherever the counter has been.", "links")
	s.Claim(claimAnswered, "The service answered every guess of the botnet.", "guesses")
	s.Claim(claimThrottle, fmt.Sprintf("One address is told of no more than %d misses, and %d more a second; what it asks beyond is refused.", scanBurst, scanRate), "misses")
}

func (s *scanRun) judgeScan() {
	v := s.permuted
	want := v.byChance(s.length)
	lo, hi := likely(want)
	s.Figures(claimUnguessed, want, float64(v.answers.Hits))
	s.Judge(claimUnguessed, lo <= v.answers.Hits && v.answers.Hits <= hi,
		"of %d guesses %d hit a link, where chance brings %.1f: from %d to %d but once in a thousand times", v.answers.told(), v.answers.Hits, want, lo, hi)
	s.Within(claimCounter, float64(s.counter.walked()), float64(s.counter.answers.Hits), 0.02)
	guesses := int64(len(s.permuted.guesses) + len(s.counter.guesses))
	told := s.permuted.answers.told() + s.counter.answers.told()
	s.None(claimAnswered, guesses-told, "of %d guesses %d were answered; %s", guesses, told, s.permuted.answers.refusal+s.counter.answers.refusal)
	s.judgeThrottle(v)
}

// judgeThrottle wants refusals too: a service that answers nothing tells of no misses either.
// Guesses that hardly ever miss, as at a counter, do not come to the limit.
func (s *scanRun) judgeThrottle(v *victim) {
	most := scanBurst + scanRate*v.elapsed.Seconds() + scanWidth
	s.Figures(claimThrottle, most, float64(v.alone.Misses))
	s.Judge(claimThrottle, float64(v.alone.Misses) <= most && v.alone.Refused > 0 && v.alone.Failed == 0,
		"%d misses in %.1f s, where at most %.0f are allowed; %d guesses were refused, and %d got no answer or another one",
		v.alone.Misses, v.elapsed.Seconds(), most, v.alone.Refused, v.alone.Failed)
	if v.alone.Refused+v.alone.Failed == 0 && v.alone.Misses <= scanBurst {
		s.CannotJudge(claimThrottle, "%d misses in %.1f s are allowed", v.alone.Misses, v.elapsed.Seconds())
	}
}

// byChance is how many guesses would hit a link if links were anywhere: what is known is
// not guessed.
func (v *victim) byChance(length int) float64 {
	return float64(len(v.guesses)) * float64(len(v.codes)-len(v.known)) / float64(codespace.Size(length)-int64(len(v.known)))
}

// walked is how many guesses hit a link if links have consecutive numbers, from the first.
func (v *victim) walked() (n int) {
	first := slices.Min(v.codes)
	for _, guess := range v.guesses {
		if guess >= first && guess < first+int64(len(v.codes)) {
			n++
		}
	}
	return n
}

// likely are the bounds within which a Poisson variable of that mean is but for chance on
// either side.
func likely(mean float64) (lo, hi int64) {
	const sigmas, large = 3.29, 200 // from where on it is as good as a normal variable
	if mean > large {
		spread := sigmas * math.Sqrt(mean)
		return int64(mean - spread), int64(mean + spread)
	}
	term, below := math.Exp(-mean), 0.0 // the chance of n, and of less than n
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

// draw enters what is to be seen.
func (s *scanRun) draw() {
	row := func(name string, v *victim, predicted float64) []string {
		share := float64(v.answers.Hits) / float64(max(1, v.answers.told()))
		return []string{
			name, fmt.Sprint(len(v.codes)), fmt.Sprint(v.answers.told()), fmt.Sprintf("%.1f", predicted), fmt.Sprint(v.answers.Hits),
			fmt.Sprintf("%.0f", 1e6*share),
		}
	}
	s.Tables = []report.Table{
		{
			Title:   "Guesses next to known codes",
			Columns: []string{"codes", "links", "guesses", "hits predicted", "hits", "hits in a million guesses"},
			Rows: [][]string{
				row("permuted", s.permuted, s.permuted.byChance(s.length)),
				row("plain counter", s.counter, float64(s.counter.walked())),
			},
		},
		s.lengths(),
	}
	v := s.permuted
	s.Notes = append(s.Notes, fmt.Sprintf("From one address, %.1f s of guesses brought %d misses and %d hits, and %d refusals.",
		v.elapsed.Seconds(), v.alone.Misses, v.alone.Hits, v.alone.Refused))
	s.Charts = []report.Chart{s.chart()}
}

// chart shows that it does not matter how near a guess is.
func (s *scanRun) chart() report.Chart {
	share := 100 * s.permuted.byChance(s.length) / float64(len(s.permuted.guesses))
	return report.Chart{
		Title: "Of guesses next to a known code, how many hit a link", X: report.Axis{Label: "distance from the known code"},
		Y: report.Axis{Label: "guesses that hit", Unit: "%"},
		Series: []report.Series{
			s.counter.nearness("plain counter", s.reach), s.permuted.nearness("permuted", s.reach),
			{Name: "permuted, by chance", Predicted: true, XY: [][2]float64{{0, share}, {float64(s.reach), share}}},
		},
	}
}

// nearness is the share of guesses that hit, in percent, by their distance from the next
// code that was known.
func (v *victim) nearness(name string, reach int) report.Series {
	const bins = 20
	wide := (reach + bins - 1) / bins
	var guesses, hits [bins]float64
	known := slices.Sorted(maps.Keys(v.known))
	bin := func(guess int64) int {
		i, _ := slices.BinarySearch(known, guess)
		distance := int64(math.MaxInt64)
		for _, n := range known[max(0, i-1):min(i+1, len(known))] {
			distance = min(distance, max(n-guess, guess-n))
		}
		return int(distance-1) / wide
	}
	for _, guess := range v.guesses {
		guesses[bin(guess)]++
	}
	for _, n := range v.answers.found {
		hits[bin(v.guesses[n])]++
	}
	s := report.Series{Name: name}
	for i := range bins {
		if guesses[i] > 0 {
			s.XY = append(s.XY, [2]float64{(float64(i) + 0.5) * float64(wide), 100 * hits[i] / guesses[i]})
		}
	}
	return s
}

// lengths says what chance brings for codes of other lengths, by the formula that was just
// confirmed or not.
func (s *scanRun) lengths() report.Table {
	t := report.Table{
		Title: "Scaled: hits that chance brings in a million guesses", Columns: []string{"characters", "codes", "with 1 million links", "with 100 million links"},
	}
	for length := s.length; length <= 8; length++ {
		size := float64(codespace.Size(length))
		hits := func(links float64) string {
			if links >= size {
				return "-"
			}
			return fmt.Sprintf("%.3g", 1e6*links/size)
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(length), fmt.Sprintf("%.3g", size), hits(1e6), hits(1e8)})
	}
	return t
}
