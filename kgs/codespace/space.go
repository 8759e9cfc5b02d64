// Package codespace maps numbers to codes and back, and calculates with ranges of numbers.
//
// A code is a string of base-62 characters. Each code stands for a number. For each code length, the
// numbers begin at 0. A [Space] that [New] returns permutes the codes of each length with the cipher FF1 and a
// secret. If each number is used once, the codes are unique and cannot be predicted without the
// secret. A [Range] is a sequence of consecutive numbers of one length.
//
// Invariant: for each length a Space maps the numbers [0, Size) one-to-one to the codes.
package codespace

import (
	"crypto/aes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Alphabet lists the digits of base 62 in the order of their values.
const Alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// MinLength and MaxLength bound the length of a code.
const (
	MinLength = 3
	MaxLength = 10
)

// Base is the number of digits in the alphabet.
const Base = 62

// fingerprintLabel is the message of the HMAC in a fingerprint. No other use of the secret has the same message.
const fingerprintLabel = "keypool: fingerprint of a code space (FF1, base 62)"

// Space turns numbers into codes and back. For every length, it is a permutation of all codes of
// that length: two numbers never share a code, and each code has a number.
//
// The permutation is FF1, a format-preserving cipher (NIST SP 800-38G) that uses AES. The radix is 62,
// the tweak is empty, and each character of the code is one numeral. One secret is enough for all lengths:
// the length is part of the input of each round of FF1, so the permutations of two lengths are
// unrelated.
//
// SP 800-38G of 2016 requires a space of at least 100 codes, and the draft of its revision 1
// requires 1,000,000. Codes of 4 and more characters satisfy both requirements (62^4 = 14,776,336).
// Codes of 3 characters satisfy only the requirement of 2016 (62^3 = 238,328), so they are for
// tests and demonstrations.
//
// A Space is safe for concurrent use, and its methods do not block. A method that takes a number
// panics if the length is outside [MinLength, MaxLength] or the number is outside [0, Size).
// Without the panic, its result would be the code of another number.
type Space struct {
	fingerprint string
	ff1         [MaxLength + 1]*ff1 // the index is the length; the elements are nil in the space of Plain, which does not permute
	digits      [256]int8           // the value of each digit of base 62; -1 for every other byte
	scratch     sync.Pool           // pool of *ff1Scratch
}

// New returns the space of a secret. The secret is the key of AES-128 or AES-256, so it must have
// 16 or 32 bytes. New does not keep the slice. The secret must be random, because an attacker who
// has the fingerprint, or a code and its number, can test guesses of the secret.
func New(secret []byte) (*Space, error) {
	if len(secret) != 16 && len(secret) != 32 {
		return nil, fmt.Errorf("the secret of a code space has %d bytes, it must have 16 or 32", len(secret))
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, fmt.Errorf("code space: %w", err)
	}
	s := Plain()
	s.fingerprint = fingerprint(secret)
	for length := MinLength; length <= MaxLength; length++ {
		s.ff1[length] = newFF1(block, Base, length, nil)
	}
	return s, nil
}

// Plain returns the space whose codes are the numbers in base 62, padded with zeros. For
// example, 1,000,000 is "004C92" at length 6. These codes are predictable.
func Plain() *Space {
	s := &Space{
		fingerprint: "plain",
		scratch:     sync.Pool{New: func() any { return new(ff1Scratch) }},
	}
	for c := range s.digits {
		s.digits[c] = int8(strings.IndexByte(Alphabet, byte(c)))
	}
	return s
}

// Fingerprint returns an identifier of the space that does not reveal its secret. It is "plain",
// or the first 16 hexadecimal digits of an HMAC-SHA-256 keyed with the secret. Two secrets have
// equal fingerprints with a probability of 2^-64.
func (s *Space) Fingerprint() string { return s.fingerprint }

func fingerprint(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(fingerprintLabel))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// Size returns the number of codes of a length, 62^length. It panics if the length is invalid.
func Size(length int) int64 {
	if length < MinLength || length > MaxLength {
		panic(fmt.Sprintf("codespace: no code has %d characters", length))
	}
	size := int64(1)
	for range length {
		size *= Base
	}
	return size
}

// AppendCode appends the code of number n to dst. It does not allocate if dst has room. For many
// consecutive numbers, AppendCodes needs about half the time for each number.
func (s *Space) AppendCode(dst []byte, length int, n int64) []byte {
	return s.AppendCodes(dst, Range{Length: length, Lo: n, Hi: n + 1})
}

// Code returns the code of number n.
func (s *Space) Code(length int, n int64) string { return string(s.AppendCode(nil, length, n)) }

// AppendCodes appends the codes of the numbers of r to dst, in order and without separators. It
// does not allocate if dst has room.
func (s *Space) AppendCodes(dst []byte, r Range) []byte {
	mustHold(r)
	scratch := s.scratch.Get().(*ff1Scratch)
	defer s.scratch.Put(scratch)
	var numbers [lanes]int64
	for lo := r.Lo; lo < r.Hi; lo += lanes {
		chunk := numbers[:min(lanes, r.Hi-lo)]
		for i := range chunk {
			chunk[i] = lo + int64(i)
		}
		s.apply((*ff1).encrypt, scratch, r.Length, chunk)
		for _, n := range chunk {
			dst = AppendBase62(dst, r.Length, n)
		}
	}
	return dst
}

// Codes returns the codes of the numbers of r, in order. It makes three allocations, whatever the
// length of r. All codes are parts of one string, so a reference to one code keeps all codes in
// memory.
func (s *Space) Codes(r Range) []string {
	mustHold(r)
	codes := make([]string, r.Len())
	text := string(s.AppendCodes(make([]byte, 0, len(codes)*r.Length), r))
	for i := range codes {
		codes[i] = text[i*r.Length : (i+1)*r.Length]
	}
	return codes
}

// Number is the inverse of AppendCode. It returns the length of the code and the number for which the code stands. It
// fails if the code has an invalid length or an invalid character.
func (s *Space) Number(code string) (length int, n int64, err error) {
	n, ok := s.number(code)
	if !ok {
		return 0, 0, notCode(code)
	}
	return len(code), n, nil
}

// number is like Number. ok is false if the string is not a code.
func (s *Space) number(code string) (n int64, ok bool) {
	if n, ok = s.parseBase62(code); !ok {
		return 0, false
	}
	scratch := s.scratch.Get().(*ff1Scratch)
	defer s.scratch.Put(scratch)
	numbers := [...]int64{n}
	s.apply((*ff1).decrypt, scratch, len(code), numbers[:])
	return numbers[0], true
}

// IsCode reports whether code has a valid length and only valid characters.
func (s *Space) IsCode(code string) bool {
	_, ok := s.parseBase62(code)
	return ok
}

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

// Ranges is the inverse of Codes, for codes in any order and of any lengths. It returns the ranges
// of the numbers of codes, sorted by length and number. It joins consecutive numbers, so no two
// ranges are adjacent. Ranges fails if a string is not a code or if a code occurs twice.
func (s *Space) Ranges(codes []string) ([]Range, error) {
	var byLength [MaxLength + 1][]int64
	for _, code := range codes {
		n, ok := s.parseBase62(code)
		if !ok {
			return nil, notCode(code)
		}
		byLength[len(code)] = append(byLength[len(code)], n)
	}
	scratch := s.scratch.Get().(*ff1Scratch)
	defer s.scratch.Put(scratch)

	var ranges []Range
	for length, numbers := range byLength {
		s.apply((*ff1).decrypt, scratch, length, numbers)
		slices.Sort(numbers)
		for i, n := range numbers {
			switch {
			case i > 0 && n == numbers[i-1]:
				return nil, fmt.Errorf("code %q occurs twice", s.AppendCode(nil, length, n))
			case i > 0 && n == numbers[i-1]+1:
				ranges[len(ranges)-1].Hi++
			default:
				ranges = append(ranges, Range{Length: length, Lo: n, Hi: n + 1})
			}
		}
	}
	return ranges, nil
}

// apply replaces each number with the result of the function way, which is (*ff1).encrypt or (*ff1).decrypt. In the space
// of Plain, apply changes nothing.
func (s *Space) apply(way func(*ff1, *ff1Scratch, int), scratch *ff1Scratch, length int, numbers []int64) {
	f := s.ff1[length]
	if f == nil {
		return
	}
	for len(numbers) > 0 {
		chunk := numbers[:min(lanes, len(numbers))]
		numbers = numbers[len(chunk):]
		for i, n := range chunk {
			scratch.x[i] = f.split(n)
		}
		way(f, scratch, len(chunk))
		for i := range chunk {
			chunk[i] = f.join(scratch.x[i])
		}
	}
}

// AppendBase62 appends n in base 62, padded with zeros to length digits.
func AppendBase62(dst []byte, length int, n int64) []byte {
	dst = slices.Grow(dst, length)[:len(dst)+length]
	digits := dst[len(dst)-length:]
	rest := uint64(n)
	for i := length - 1; i >= 0; i-- {
		digits[i] = Alphabet[rest%Base]
		rest /= Base
	}
	return dst
}

// parseBase62 is the inverse of AppendBase62. ok is false if the string is not a code.
func (s *Space) parseBase62(code string) (n int64, ok bool) {
	if len(code) < MinLength || len(code) > MaxLength {
		return 0, false
	}
	for i := range len(code) {
		digit := s.digits[code[i]]
		if digit < 0 {
			return 0, false
		}
		n = n*Base + int64(digit)
	}
	return n, true
}

// notCode returns an error that says why a string is not a code.
func notCode(s string) error {
	if len(s) < MinLength || len(s) > MaxLength {
		return fmt.Errorf("%q is not a code: its length is %d, not %d to %d", s, len(s), MinLength, MaxLength)
	}
	i := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(Alphabet, r) })
	return fmt.Errorf("%q is not a code: character %d is not one of 0-9, A-Z, a-z", s, i+1)
}
