package guess

import (
	"cmp"
	"maps"
	"math/big"
	"slices"

	"keypool/loadtest/experiments/keysource/sources"
)

const (
	seenCodes   = 100             // number of codes that a predictor knows: the latest codes
	nextCodes   = 100             // number of codes to predict: the codes that are made next
	fewGuesses  = nextCodes       // one guess for each code to predict
	manyGuesses = 100 * nextCodes // a hundred guesses for each code to predict
	maxLag      = 4               // greatest distance between two codes, in positions, at which their difference is counted
	timeShift   = 22              // number of bits below the time in a Snowflake number, which hold machine and sequence
)

// predictor is a way to guess. It uses only consecutive known codes and knowledge of how the key
// sources work. It makes all guesses before the first guess is tried.
type predictor struct {
	name string
	// guess returns n numbers, the most likely first. The last element of seen is the latest number.
	guess func(seen []*big.Int, n int) []*big.Int
}

func predictors() []predictor {
	return []predictor{
		{"the next numbers", consecutive},
		{"constant differences", differences},
		{"the next milliseconds", timestamps},
	}
}

// consecutive returns the n numbers after the latest number.
func consecutive(seen []*big.Int, n int) []*big.Int {
	return continued(seen[len(seen)-1:], big.NewInt(1), n)
}

// differences finds the most frequent difference between two numbers that are 1 to maxLag positions apart,
// and continues the sequence with this difference. For example, the numbers of two alternating counters grow
// by 2 over two positions.
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

// continued returns the n numbers that follow the given numbers (last). Each is greater by step than the number that is
// len(last) positions before it.
func continued(last []*big.Int, step *big.Int, n int) []*big.Int {
	numbers := slices.Clone(last)
	for range n {
		numbers = append(numbers, new(big.Int).Add(numbers[len(numbers)-len(last)], step))
	}
	return numbers[len(last):]
}

// timestamps returns numbers of the latest millisecond and of the milliseconds after it. It combines
// each millisecond with every known pair of machine and sequence, the most frequent pair first.
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

// codes returns the codes of the form f that p guesses. A guess is "" if f has no code for its number.
func (p predictor) codes(f *sources.Form, seen []string) []string {
	var numbers []*big.Int
	for _, code := range seen {
		if n, ok := f.Number(code); ok {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	var guesses []string
	for _, n := range p.guess(numbers, manyGuesses) {
		guesses = append(guesses, f.Code(n))
	}
	return guesses
}

// hits returns how many codes are among the first fewGuesses guesses, and how many are among all guesses.
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

// guessed is the number of guessed codes out of nextCodes codes, as a mean over several windows. A window is a
// group of known codes and the codes after them.
type guessed struct {
	few, many float64 // codes guessed with fewGuesses and with manyGuesses
	by        string  // name of the best predictor, "" for none
}

// guessAll applies each predictor to every window of the codes, which have the form f. It returns the result of the best
// predictor.
func guessAll(f *sources.Form, codes []string) (best guessed) {
	for _, p := range predictors() {
		g, windows := guessed{by: p.name}, 0.0
		for window := range slices.Chunk(codes, seenCodes+nextCodes) {
			few, many := hits(p.codes(f, window[:seenCodes]), window[seenCodes:])
			g.few, g.many, windows = g.few+few, g.many+many, windows+1
		}
		g.few, g.many = g.few/windows, g.many/windows
		if g.many > best.many || (g.many == best.many && g.few > best.few) {
			best = g
		}
	}
	return best
}
