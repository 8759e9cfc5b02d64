package citusstore

import (
	"encoding/binary"
	"math/bits"
)

// This file contains the hash functions of PostgreSQL for the types bigint and text. Their values decide in which shard
// of a distributed table a row is. PostgreSQL never changes these functions, because hash indexes and partitions depend
// on their values. The hash value of a text depends on the byte order of the database server. This file computes the
// values of little-endian servers, such as amd64 and arm64. The functions are hashint8 in
// src/backend/access/hash/hashfunc.c and hash_bytes in src/common/hashfn.c, which are based on Bob Jenkins' lookup3
// (http://burtleburtle.net/bob/c/lookup3.c).

// hashSeed returns the initial state of the hash function for an input of n bytes.
func hashSeed(n int) uint32 { return 0x9e3779b9 + uint32(n) + 3923095 }

// hashInt8 returns the hash value of a bigint.
func hashInt8(n int64) int32 {
	folded, high := uint32(n), uint32(n>>32)
	if n < 0 {
		high = ^high
	}
	seed := hashSeed(4)
	return mixFinally(seed+(folded^high), seed, seed)
}

// hashText returns the hash value of a text with the collation C.
func hashText(text string) int32 {
	seed := hashSeed(len(text))
	a, b, c := seed, seed, seed
	rest := []byte(text)
	for ; len(rest) >= 12; rest = rest[12:] {
		a += binary.LittleEndian.Uint32(rest)
		b += binary.LittleEndian.Uint32(rest[4:])
		c += binary.LittleEndian.Uint32(rest[8:])
		a, b, c = mix(a, b, c)
	}
	var last [12]byte
	copy(last[:], rest)
	a += binary.LittleEndian.Uint32(last[:])
	b += binary.LittleEndian.Uint32(last[4:])
	c += binary.LittleEndian.Uint32(last[8:]) << 8 // the lowest byte of c is reserved for the length
	return mixFinally(a, b, c)
}

func mix(a, b, c uint32) (uint32, uint32, uint32) {
	a, c = (a-c)^bits.RotateLeft32(c, 4), c+b
	b, a = (b-a)^bits.RotateLeft32(a, 6), a+c
	c, b = (c-b)^bits.RotateLeft32(b, 8), b+a
	a, c = (a-c)^bits.RotateLeft32(c, 16), c+b
	b, a = (b-a)^bits.RotateLeft32(a, 19), a+c
	c, b = (c-b)^bits.RotateLeft32(b, 4), b+a
	return a, b, c
}

func mixFinally(a, b, c uint32) int32 {
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	c = (c ^ b) - bits.RotateLeft32(b, 24)
	return int32(c) // PostgreSQL reads the bits as a signed number
}
