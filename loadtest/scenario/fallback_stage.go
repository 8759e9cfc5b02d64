package scenario

import (
	"context"
	"math"
	"time"

	"keypool/kgs/codespace"
	"keypool/loadtest"
	"keypool/loadtest/testbed"
)

// stage is what was measured while the space was in use to a share.
type stage struct {
	share          float64
	random, ledger measured
	cut            bool // it was ended before its time; only its accounts mean something
}

// measured is what came of the creations of one level and one fallback.
type measured struct {
	filled  int64    // codes in use at first, of which
	leaving int64    // so many went, one for each link that was made
	offered []string // the codes that the store was offered
	verdict loadtest.Verdict
	latency loadtest.Latency
	told    float64       // attempts per creation, as the server has it
	commit  time.Duration // of one commit on average, as the server has it
	crowded int64         // creations for which the sender had no room
	others  float64       // the share of the processors that other programs took
}

// attempts is how many there were per creation, by the store's account.
func (m *measured) attempts() float64 {
	return ratio(float64(len(m.offered)), float64(m.verdict.Acknowledged))
}

// ratio is 0 of nothing.
func ratio(of, to float64) float64 {
	if to == 0 {
		return 0
	}
	return of / to
}

// predicted is how many attempts a creation takes on average where each draw finds any
// code of size with the same chance: 1/(1-f), with the f that each creation met.
func (m *measured) predicted(size int64) float64 {
	made := max(1, m.verdict.Acknowledged)
	sum := 0.0
	for i := range made {
		used := m.filled + max(0, i+1-m.leaving) // one link was made before
		sum += float64(size) / float64(size-used)
	}
	return sum / float64(made)
}

// crowded counts the creations that were not sent because too many were under way.
func crowded(entries []loadtest.Entry) (n int64) {
	for _, e := range entries {
		if e.State == loadtest.Unsent && e.Detail == loadtest.NoRoom {
			n++
		}
	}
	return n
}

// account is what the store and the server have counted so far.
type account struct {
	offered             []string
	attempts, creations float64
	seconds, commits    float64
}

func (f *fallbackRun) account(ctx context.Context, server *testbed.Program) (a account, err error) {
	if a.offered, err = f.crowd.offered(ctx); err != nil {
		return a, err
	}
	metrics, err := testbed.AskMetrics(ctx, server.Admin)
	if err != nil {
		return a, err
	}
	a.attempts, a.creations = histogram(metrics, "kgs_fallback_attempts")
	a.seconds, a.commits = histogram(metrics, "shortener_commit_seconds")
	return a, nil
}

// histogram is the sum and the count of one without labels, 0 where there is none.
func histogram(m testbed.Metrics, name string) (sum, count float64) {
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetHistogram().GetSampleSum()
		count += float64(metric.GetHistogram().GetSampleCount())
	}
	return sum, count
}

// attempts99 is how many attempts 99 of 100 creations do not exceed where a share of the
// codes is in use.
func attempts99(share float64) float64 {
	return max(1, math.Ceil(math.Log(0.01)/math.Log(share)))
}

// draws counts how often each character was drawn at each place of a code.
type draws [codespace.MaxLength][256]int

func (d *draws) add(codes []string) {
	for _, code := range codes {
		for place := range min(len(code), len(d)) {
			d[place][code[place]]++
		}
	}
}

// unevenness is Pearson's chi-squared against the even draw of every character at each of
// the places, and its degrees of freedom.
func (d *draws) unevenness() (chi2 float64, freedom int) {
	for i := range d {
		place, total := &d[i], 0
		for _, n := range place {
			total += n
		}
		if total == 0 {
			continue
		}
		want := float64(total) / float64(len(codespace.Alphabet))
		for _, c := range []byte(codespace.Alphabet) {
			chi2 += math.Pow(float64(place[c])-want, 2) / want
		}
		freedom += len(codespace.Alphabet) - 1
	}
	return chi2, freedom
}

// unlikely is what chi-squared exceeds once in ten thousand times, by the approximation
// of Wilson and Hilferty.
func unlikely(freedom int) float64 {
	const z = 3.719 // of the normal distribution
	n := 2 / (9 * float64(freedom))
	return float64(freedom) * math.Pow(1-n+z*math.Sqrt(n), 3)
}
