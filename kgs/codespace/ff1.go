package codespace

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// FF1 has ten Feistel rounds, whatever the key.
const ff1Rounds = 10

// lanes is how many inputs are taken through the rounds side by side. A round needs
// the AES output of the round before it, so a single input leaves the processor
// waiting; with 16 independent ones a key costs about half as much. More gain nothing.
const lanes = 16

// halves is a numeral string X cut in two, as FF1 works on it: a is the number that
// the first floor(n/2) numerals write, b the number of the others.
type halves struct{ a, b uint64 }

// ff1 is the format-preserving cipher FF1 of NIST SP 800-38G (algorithms 7 and 8)
// for one AES key, radix, length and tweak. It is immutable.
//
// The PRF of a round is an AES-CBC-MAC over P and Q. P is the same in every round,
// and of Q only the last block is not: it ends in the round's number (one byte) and
// the half B (width bytes). So all that goes before is computed once, and a round
// costs one AES block.
type ff1 struct {
	block  cipher.Block
	mod    [2]uint64 // radix to the length of the half that an even, an odd round replaces
	width  int       // bytes of NUM(B) in Q: the standard's b
	hi, lo uint64    // what the last block of Q is XORed to: the MAC so far and the rest of the tweak
}

// newFF1 prepares FF1 for strings of length numerals. It panics where a half does
// not fit in 63 bits, for what comes after relies on it: the halves are numbers
// that add up without overflow, and the PRF output is a part of one block.
func newFF1(block cipher.Block, radix, length int, tweak []byte) *ff1 {
	u := length / 2
	f := &ff1{block: block, mod: [2]uint64{power(radix, u), power(radix, length-u)}}
	f.width = (bits.Len64(f.mod[1]-1) + 7) / 8

	var mac [aes.BlockSize]byte // starts as P
	mac[0], mac[1] = 1, 2
	binary.BigEndian.PutUint32(mac[2:], 1<<24|uint32(radix)) // a third constant, and a radix of three bytes
	mac[6], mac[7] = ff1Rounds, byte(u)
	binary.BigEndian.PutUint32(mac[8:], uint32(length))
	binary.BigEndian.PutUint32(mac[12:], uint32(len(tweak)))

	blocks := (len(tweak) + 1 + f.width + aes.BlockSize - 1) / aes.BlockSize
	q := make([]byte, blocks*aes.BlockSize) // the tweak, then zeros where padding, round and B belong
	copy(q, tweak)
	for ; len(q) > 0; q = q[aes.BlockSize:] {
		block.Encrypt(mac[:], mac[:])
		subtle.XORBytes(mac[:], mac[:], q[:aes.BlockSize])
	}
	f.hi, f.lo = binary.BigEndian.Uint64(mac[:8]), binary.BigEndian.Uint64(mac[8:])
	return f
}

// power is radix^n, at most 2^63.
func power(radix, n int) uint64 {
	p := uint64(1)
	for range n {
		hi, lo := bits.Mul64(p, uint64(radix))
		if hi != 0 || lo > 1<<63 {
			panic(fmt.Sprintf("codespace: FF1 with %d numerals of radix %d in a half", n, radix))
		}
		p = lo
	}
	return p
}

// split cuts a number into the halves of the string that writes it, and join undoes
// that. They are for strings that fit in one number; FF1 itself needs no such thing.
func (f *ff1) split(n int64) halves {
	return halves{uint64(n) / f.mod[1], uint64(n) % f.mod[1]}
}

func (f *ff1) join(x halves) int64 { return int64(x.a*f.mod[1] + x.b) }

// ff1Scratch is the memory of one caller of encrypt or decrypt. It is handed in
// because what passes through the interface cipher.Block has to live on the heap.
type ff1Scratch struct {
	x   [lanes]halves
	mac [lanes][aes.BlockSize]byte
}

// encrypt replaces the first k inputs in s by their images under the permutation.
func (f *ff1) encrypt(s *ff1Scratch, k int) {
	x := s.x[:k]
	for round := range uint64(ff1Rounds) {
		mod := f.mod[round%2]
		f.prf(s, k, round)
		for i := range x {
			c := x[i].a + f.residue(&s.mac[i], mod)
			if c >= mod {
				c -= mod
			}
			x[i] = halves{x[i].b, c}
		}
	}
}

// decrypt is the inverse of encrypt: the rounds backwards, subtracting. The halves
// are held swapped meanwhile, so that the PRF finds its input where it always is.
func (f *ff1) decrypt(s *ff1Scratch, k int) {
	x := s.x[:k]
	for i := range x {
		x[i].a, x[i].b = x[i].b, x[i].a
	}
	for round := uint64(ff1Rounds); round > 0; {
		round--
		mod := f.mod[round%2]
		f.prf(s, k, round)
		for i := range x {
			c := x[i].a + mod - f.residue(&s.mac[i], mod)
			if c >= mod {
				c -= mod
			}
			x[i] = halves{x[i].b, c}
		}
	}
	for i := range x {
		x[i].a, x[i].b = x[i].b, x[i].a
	}
}

// prf fills the first k MACs for one round over the halves b. All blocks are laid out
// before the first is encrypted: an encryption that reads a block just written as
// two words would wait until both have left the store buffer.
func (f *ff1) prf(s *ff1Scratch, k int, round uint64) {
	// The round's number stands before the half, on the word boundary if that has 8 bytes.
	hi := f.hi ^ round>>(64-8*f.width)
	lo := f.lo ^ round<<(8*f.width)
	for i := range k {
		binary.BigEndian.PutUint64(s.mac[i][:8], hi)
		binary.BigEndian.PutUint64(s.mac[i][8:], lo^s.x[i].b)
	}
	for i := range k {
		f.block.Encrypt(s.mac[i][:], s.mac[i][:])
	}
}

// residue is y mod m, where y is the first d = 4*ceil(width/4)+4 bytes of a MAC: eight
// for halves of up to 32 bits, which the halves of every code are, else twelve.
func (f *ff1) residue(mac *[aes.BlockSize]byte, m uint64) uint64 {
	y := binary.BigEndian.Uint64(mac[:8])
	if f.width <= 4 {
		return y % m
	}
	return bits.Rem64(y>>32, y<<32|uint64(binary.BigEndian.Uint32(mac[8:])), m)
}
