package codespace

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// FF1 has ten Feistel rounds for every key size.
const ff1Rounds = 10

// lanes is the number of inputs that go through the rounds together. A round needs the AES output of the previous
// round, so the processor waits between the rounds of a single input. If 16 independent inputs go through the rounds
// together, the encryption of each input takes about half as long as the encryption of a single input. More than 16
// inputs do not reduce the time further.
const lanes = 16

// halves is a string of n numerals, split into the two parts that FF1 uses. a is the value of the
// first floor(n/2) numerals, and b is the value of the other numerals.
type halves struct{ a, b uint64 }

// ff1 is the format-preserving cipher FF1 of NIST SP 800-38G (algorithms 7 and 8) for one AES key,
// radix, length and tweak. It is immutable. The comments below use the names of the standard: P, Q,
// B, NUM, b and d.
//
// The PRF of a round is an AES-CBC-MAC over the strings P and Q of the standard. Only the last block
// of Q differs between rounds. This block ends with the round number (one byte) and the half B
// (width bytes). newFF1 computes the MAC of everything before this block once, so a round costs one
// AES block.
type ff1 struct {
	block  cipher.Block
	mod    [2]uint64 // radix^m for even (0) and odd (1) rounds, where m is the length of the half that the round replaces
	width  int       // number of bytes of NUM(B) in Q; the standard calls it b
	hi, lo uint64    // MAC of all blocks before the last block of Q, XORed with the part of the tweak in the last block
}

// newFF1 prepares FF1 for strings with the given number of numerals. It panics if a half does not
// fit in 63 bits. Because of this limit, a sum of two halves does not overflow, and the output of
// the PRF fits in one block.
func newFF1(block cipher.Block, radix, length int, tweak []byte) *ff1 {
	u := length / 2
	f := &ff1{block: block, mod: [2]uint64{power(radix, u), power(radix, length-u)}}
	f.width = (bits.Len64(f.mod[1]-1) + 7) / 8

	var mac [aes.BlockSize]byte // P at first, then the MAC
	mac[0], mac[1] = 1, 2
	binary.BigEndian.PutUint32(mac[2:], 1<<24|uint32(radix)) // the constant 1, then the radix in three bytes
	mac[6], mac[7] = ff1Rounds, byte(u)
	binary.BigEndian.PutUint32(mac[8:], uint32(length))
	binary.BigEndian.PutUint32(mac[12:], uint32(len(tweak)))

	blocks := (len(tweak) + 1 + f.width + aes.BlockSize - 1) / aes.BlockSize
	q := make([]byte, blocks*aes.BlockSize) // the tweak, then zeros in place of the padding, the round number and B
	copy(q, tweak)
	for ; len(q) > 0; q = q[aes.BlockSize:] {
		block.Encrypt(mac[:], mac[:])
		subtle.XORBytes(mac[:], mac[:], q[:aes.BlockSize])
	}
	f.hi, f.lo = binary.BigEndian.Uint64(mac[:8]), binary.BigEndian.Uint64(mac[8:])
	return f
}

// power returns radix^n. It panics if the result exceeds 2^63.
func power(radix, n int) uint64 {
	p := uint64(1)
	for range n {
		hi, lo := bits.Mul64(p, uint64(radix))
		if hi != 0 || lo > 1<<63 {
			panic(fmt.Sprintf("codespace: a half of %d numerals of radix %d does not fit in 63 bits", n, radix))
		}
		p = lo
	}
	return p
}

// split and join convert between a number and the two halves of its numeral string. For split and join,
// the number must fit in 64 bits. For the other methods, each half must fit in 63 bits.
func (f *ff1) split(n int64) halves {
	return halves{uint64(n) / f.mod[1], uint64(n) % f.mod[1]}
}

func (f *ff1) join(x halves) int64 { return int64(x.a*f.mod[1] + x.b) }

// ff1Scratch is the working memory of one call of encrypt or decrypt. The caller provides the memory and reuses it. If
// the working memory were a local variable, each call would allocate it on the heap, because the arguments of a method
// of cipher.Block escape to the heap.
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

// decrypt is the inverse of encrypt. It runs the rounds in reverse order, and subtracts where
// encrypt adds. It swaps the halves at the start and at the end, because prf reads its input from
// the half b.
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

// prf computes the MACs of one round for the first k inputs from their halves b. It writes all
// blocks before it encrypts the first block. If it encrypted each block right after the two 8-byte
// writes of this block, the processor would wait until both writes have left its store buffer.
func (f *ff1) prf(s *ff1Scratch, k int, round uint64) {
	// The round number is in the byte before the half. If the half has 8 bytes, this byte is in hi.
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

// residue returns y mod m, where y is the first d bytes of a MAC and d = 4*ceil(width/4)+4. d is 8
// for halves of up to 32 bits, and 12 for longer halves. The halves of every code fit in 32 bits;
// only tests use longer halves.
func (f *ff1) residue(mac *[aes.BlockSize]byte, m uint64) uint64 {
	y := binary.BigEndian.Uint64(mac[:8])
	if f.width <= 4 {
		return y % m
	}
	return bits.Rem64(y>>32, y<<32|uint64(binary.BigEndian.Uint32(mac[8:])), m)
}
