package codespace

import "fmt"

// firstRanks holds the rank of number 0 of each length. The last element is the number of ranks.
//
//nolint:gochecknoglobals // immutable
var firstRanks = func() (first [MaxLength + 2]int64) {
	for length := MinLength; length <= MaxLength; length++ {
		first[length+1] = first[length] + Size(length)
	}
	return first
}()

// Rank returns the rank of code, which is its position among the codes of all lengths. A shorter
// code has a smaller rank than a longer code. Codes of the same length are in the order of their
// numbers. So the codes of a [Range] have consecutive ranks, although the codes themselves are in a
// permuted order. No two codes have the same rank. The greatest rank is less than 2^60.
//
// ok is false if code is not a code of MinLength to MaxLength digits in base 62.
func (s *Space) Rank(code string) (rank int64, ok bool) {
	n, ok := s.number(code)
	if !ok {
		return 0, false
	}
	return firstRanks[len(code)] + n, true
}

// AtRank is the inverse of Rank: it returns the length and the number of the code with this rank.
// It panics if no code has this rank.
func AtRank(rank int64) (length int, n int64) {
	for length = MinLength; length <= MaxLength; length++ {
		if rank >= firstRanks[length] && rank < firstRanks[length+1] {
			return length, rank - firstRanks[length]
		}
	}
	panic(fmt.Sprintf("codespace: no code has the rank %d", rank))
}
