package guess

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
)

const (
	seenCodes   = 100             // the latest codes, which the predictors see
	nextCodes   = 100             // the codes that are made next
	fewGuesses  = nextCodes       // one for each code to come
	manyGuesses = 100 * nextCodes // a hundred for each
	maxLag      = 4               // the places over which a pattern is looked for
	timeShift   = 22              // the bits of a Snowflake below its time: machine and sequence
)

// predictor is a way to guess. It knows how the key sources work and codes that were made one
// directly after the other, and nothing else. None of its guesses is tried before all are made.
type predictor struct {
	name string
	// guess returns n numbers, the likeliest first. The latest number that was seen is the last.
	guess func(seen []*big.Int, n int) []*big.Int
}

func predictors() []predictor {
	return []predictor{
		{"the next numbers", consecutive},
		{"constant differences", differences},
		{"the next milliseconds", timestamps},
	}
}

// consecutive counts on from the latest number.
func consecutive(seen []*big.Int, n int) []*big.Int {
	return continued(seen[len(seen)-1:], big.NewInt(1), n)
}

// differences continues with the most frequent difference over 1 to maxLag places: two counters
// that take turns grow by 2 over two places.
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

// continued returns n numbers, each a step above the one len(last) places before it.
func continued(last []*big.Int, step *big.Int, n int) []*big.Int {
	numbers := slices.Clone(last)
	for range n {
		numbers = append(numbers, new(big.Int).Add(numbers[len(numbers)-len(last)], step))
	}
	return numbers[len(last):]
}

// timestamps takes the millisecond of the latest number and the following ones, each with every
// machine and sequence that was seen, the most frequent first.
func timestamps(seen []*big.Int, n int) []*big.Int {
	mask := big.NewInt(1<<timeShift - 1)
	count := make(map[int64]int)
	for _, number := range seen {
		count[new(big.Int).And(number, mask).Int64()]++
	}
	lows := slices.SortedFunc(maps.Keys(count), func(a, b int64) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	latest := seen[len(seen)-1]
	var numbers []*big.Int
	for first := new(big.Int).AndNot(latest, mask); len(numbers) < n; first.Add(first, big.NewInt(1<<timeShift)) {
		for _, low := range lows {
			if number := new(big.Int).Or(first, big.NewInt(low)); number.Cmp(latest) > 0 {
				numbers = append(numbers, number)
			}
		}
	}
	return numbers[:n]
}

// guess returns the guesses of p. A number that is no code of the form is a wasted guess.
func (f *form) guess(p predictor, seen []string) []string {
	var numbers []*big.Int
	for _, code := range seen {
		if n, ok := f.number(code); ok {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	var guesses []string
	for _, n := range p.guess(numbers, manyGuesses) {
		guesses = append(guesses, f.code(n))
	}
	return guesses
}

// hits is how many of the codes are among the first few guesses, and among all.
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

// guessed is how many of nextCodes were guessed, as a mean over several windows.
type guessed struct {
	few, many float64 // with fewGuesses and manyGuesses
	by        string  // the best predictor, "" for none
}

// guessAll lets each predictor guess in every window of the codes. The best one counts.
func (f *form) guessAll(codes []string) (best guessed) {
	for _, p := range predictors() {
		g, windows := guessed{by: p.name}, 0.0
		for window := range slices.Chunk(codes, seenCodes+nextCodes) {
			few, many := hits(f.guess(p, window[:seenCodes]), window[seenCodes:])
			g.few, g.many, windows = g.few+few, g.many+many, windows+1
		}
		g.few, g.many = g.few/windows, g.many/windows
		if g.many > best.many || (g.many == best.many && g.few > best.few) {
			best = g
		}
	}
	return best
}
