package schemes

import (
	"cmp"
	"crypto/rand"
	"maps"
	"math/big"
	"slices"
)

const (
	seenCodes = 100 // that whoever guesses has seen: the latest ones
	nextCodes = 100 // that are made next
	// fewGuesses are as many as there are codes to come; manyGuesses are a hundred for each.
	fewGuesses  = nextCodes
	manyGuesses = 100 * nextCodes
	// maxLag is over how many codes a pattern is looked for.
	maxLag = 4
)

// predictor is a way to guess. It knows how the schemes work and codes that were made one
// right after the other, and nothing else; none of its guesses is tried before it
// has made them all.
type predictor struct {
	name string
	// guess names n numbers, the likeliest first, by those that were seen, the latest last.
	guess func(seen []*big.Int, n int) []*big.Int
}

func predictors() []predictor {
	return []predictor{
		{"the next numbers", consecutive},
		{"constant differences", differences},
		{"the next milliseconds", timestamps},
	}
}

// consecutive goes on counting from the latest number.
func consecutive(seen []*big.Int, n int) []*big.Int {
	return continued(seen[len(seen)-1:], big.NewInt(1), n)
}

// differences goes on as the numbers have grown over one place or some: two counters that
// take turns grow by 2 over two places.
func differences(seen []*big.Int, n int) []*big.Int {
	lag, step, most := 1, new(big.Int), 0
	for l := range min(maxLag, len(seen)-1) {
		count := make(map[string]int)
		for i := l + 1; i < len(seen); i++ {
			d := new(big.Int).Sub(seen[i], seen[i-l-1])
			key := d.String()
			if count[key]++; count[key] > most {
				lag, step, most = l+1, d, count[key]
			}
		}
	}
	return continued(seen[len(seen)-lag:], step, n)
}

// continued gives n numbers, each a step above the one as many places before it as there
// are in last.
func continued(last []*big.Int, step *big.Int, n int) []*big.Int {
	numbers := slices.Clone(last)
	for range n {
		numbers = append(numbers, new(big.Int).Add(numbers[len(numbers)-len(last)], step))
	}
	return numbers[len(last):]
}

// timestamps takes the millisecond of the latest number and those that follow, each with
// every machine and sequence that was seen, the most frequent first.
func timestamps(seen []*big.Int, n int) []*big.Int {
	mask := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), timeShift), big.NewInt(1))
	count := make(map[int64]int)
	for _, number := range seen {
		count[new(big.Int).And(number, mask).Int64()]++
	}
	lows := slices.SortedFunc(maps.Keys(count), func(a, b int64) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	latest := seen[len(seen)-1]
	ms := new(big.Int).Rsh(latest, timeShift)
	numbers := make([]*big.Int, 0, n)
	for ; len(numbers) < n; ms.Add(ms, big.NewInt(1)) {
		first := new(big.Int).Lsh(ms, timeShift)
		for _, low := range lows {
			if number := new(big.Int).Or(first, big.NewInt(low)); number.Cmp(latest) > 0 {
				numbers = append(numbers, number)
			}
		}
	}
	return numbers[:n]
}

// byChance draws n codes of the class.
func (c class) byChance(n int) []string {
	codes := make([]string, 0, n)
	for range n {
		number, _ := rand.Int(rand.Reader, c.size) // the reader never fails
		code, _ := c.code(number)
		codes = append(codes, code)
	}
	return codes
}

// guess lets p name codes of the class; what is none is a guess wasted.
func (c class) guess(p predictor, seen []string) []string {
	numbers := make([]*big.Int, 0, len(seen))
	for _, code := range seen {
		if n, ok := c.digits.number(code); ok {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	guesses := make([]string, 0, manyGuesses)
	for _, n := range p.guess(numbers, manyGuesses) {
		code, _ := c.code(n)
		guesses = append(guesses, code)
	}
	return guesses
}

// hits is how many of the codes are among the guesses, and among the first few of them.
func hits(guesses, codes []string) (few, all float64) {
	at := make(map[string]int, len(guesses))
	for i, guess := range slices.Backward(guesses) {
		at[guess] = i
	}
	for _, code := range codes {
		i, hit := at[code]
		if hit {
			all++
		}
		if hit && i < fewGuesses {
			few++
		}
	}
	return few, all
}

// guessed is how well codes were guessed, as a mean over several windows.
type guessed struct {
	few, many float64 // of nextCodes, with fewGuesses and manyGuesses
	by        string  // the predictor that was the best, "" for none
	chance    float64 // of nextCodes, with manyGuesses by chance
}

// guessAll lets each predictor guess in every window of the codes; the best one counts.
func (c class) guessAll(codes []string) guessed {
	var best guessed
	windows := len(codes) / (seenCodes + nextCodes)
	for _, p := range predictors() {
		g := guessed{by: p.name}
		for w := range windows {
			window := codes[w*(seenCodes+nextCodes):][:seenCodes+nextCodes]
			few, many := hits(c.guess(p, window[:seenCodes]), window[seenCodes:])
			g.few += few / float64(windows)
			g.many += many / float64(windows)
		}
		if g.many > best.many || (g.many == best.many && g.few > best.few) {
			best = g
		}
	}
	for w := range windows {
		_, many := hits(c.byChance(manyGuesses), codes[w*(seenCodes+nextCodes)+seenCodes:][:nextCodes])
		best.chance += many / float64(windows)
	}
	return best
}
