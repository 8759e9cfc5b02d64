package codespace

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"math/big"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// These inputs occur in several of the NIST samples.
const (
	nistKey128 = "2B7E151628AED2A6ABF7158809CF4F3C"
	nistKey192 = nistKey128 + "EF4359D8D580AA4F"
	nistKey256 = nistKey192 + "7F036D6F04FC6A94"

	nistTweak10 = "39383736353433323130"
	nistTweak11 = "3737373770717273373737"
)

type nistSample struct {
	number            int
	key               string
	radix             int
	tweak             string
	plain, ciphertext string
}

// nistSamples returns the nine samples that NIST published with SP 800-38G (FF1samples.pdf).
func nistSamples() []nistSample {
	return []nistSample{
		{1, nistKey128, 10, "", "0123456789", "2433477484"},
		{2, nistKey128, 10, nistTweak10, "0123456789", "6124200773"},
		{3, nistKey128, 36, nistTweak11, "0123456789abcdefghi", "a9tv40mll9kdu509eum"},
		{4, nistKey192, 10, "", "0123456789", "2830668132"},
		{5, nistKey192, 10, nistTweak10, "0123456789", "2496655549"},
		{6, nistKey192, 36, nistTweak11, "0123456789abcdefghi", "xbj3kv35jrawxv32ysr"},
		{7, nistKey256, 10, "", "0123456789", "6657667009"},
		{8, nistKey256, 10, nistTweak10, "0123456789", "1001623463"},
		{9, nistKey256, 36, nistTweak11, "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"},
	}
}

func TestFF1MatchesNISTSamples(t *testing.T) {
	t.Parallel()
	for _, sample := range nistSamples() {
		block, tweak := aesBlock(t, unhex(t, sample.key)), unhex(t, sample.tweak)
		f := newFF1(block, sample.radix, len(sample.plain), tweak)
		plain, ciphertext := parseHalves(t, sample.plain, sample.radix), parseHalves(t, sample.ciphertext, sample.radix)

		var s ff1Scratch
		s.x[0] = plain
		if f.encrypt(&s, 1); s.x[0] != ciphertext {
			t.Errorf("sample %d: encrypt %v = %v, want %v", sample.number, plain, s.x[0], ciphertext)
		}
		if f.decrypt(&s, 1); s.x[0] != plain {
			t.Errorf("sample %d: decrypt %v = %v, want %v", sample.number, ciphertext, s.x[0], plain)
		}
		if got := specFF1(block, sample.radix, len(sample.plain), tweak, plain); got != ciphertext {
			t.Errorf("sample %d: the model encrypts %v to %v, want %v", sample.number, plain, got, ciphertext)
		}
	}
}

// The NIST samples cover only two lengths, and not radix 62. This test compares ff1 with specFF1, a
// model, for other radices, lengths and tweaks and for all lanes. TestFF1MatchesNISTSamples checks
// the model.
func TestFF1MatchesModelForRandomInputs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
		block := aesBlock(t, key[:rapid.SampledFrom([]int{16, 24, 32}).Draw(t, "key size")])
		radix := rapid.OneOf(rapid.Just(Base), rapid.IntRange(2, 1<<16)).Draw(t, "radix")
		length := rapid.IntRange(2, longest(radix)).Draw(t, "length")
		tweak := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "tweak")
		f := newFF1(block, radix, length, tweak)

		var s ff1Scratch
		k := rapid.IntRange(1, lanes).Draw(t, "inputs")
		for i := range k {
			s.x[i].a = rapid.Uint64Range(0, f.mod[0]-1).Draw(t, "a")
			s.x[i].b = rapid.Uint64Range(0, f.mod[1]-1).Draw(t, "b")
		}
		plain := s.x
		f.encrypt(&s, k)
		for i := range k {
			if want := specFF1(block, radix, length, tweak, plain[i]); s.x[i] != want {
				t.Fatalf("input %d: encrypt %v = %v, want %v as in the model", i, plain[i], s.x[i], want)
			}
		}
		if f.decrypt(&s, k); s.x != plain {
			t.Fatalf("decrypt gave %v, want %v", s.x, plain)
		}
	})
}

// The sizes of the halves depend on the code length, so this test covers every length.
func TestFF1MatchesModelAtEveryCodeLength(t *testing.T) {
	t.Parallel()
	block := aesBlock(t, unhex(t, nistKey128))
	for length := MinLength; length <= MaxLength; length++ {
		f := newFF1(block, Base, length, nil)
		last := Size(length) - 1
		for _, n := range []int64{0, 1, Base - 1, Base, last / 2, last - 1, last} {
			var s ff1Scratch
			s.x[0] = f.split(n)
			want := specFF1(block, Base, length, nil, s.x[0])
			if f.encrypt(&s, 1); s.x[0] != want {
				t.Errorf("length %d: encrypt %d = %v, want %v as in the model", length, n, s.x[0], want)
			}
		}
	}
}

func TestNewFF1PanicsIfHalfExceeds63Bits(t *testing.T) {
	t.Parallel()
	block := aesBlock(t, unhex(t, nistKey128))
	for _, radix := range []int{2, 10, Base, 1 << 16} {
		newFF1(block, radix, longest(radix), nil)
		mustPanic(t, func() { newFF1(block, radix, longest(radix)+1, nil) })
	}
}

// longest returns the greatest length for which both halves fit in 63 bits.
func longest(radix int) int {
	v, p, limit := 0, big.NewInt(int64(radix)), new(big.Int).Lsh(big.NewInt(1), 63)
	for p.Cmp(limit) <= 0 {
		v++
		p.Mul(p, big.NewInt(int64(radix)))
	}
	return 2 * v
}

// specFF1 is a model of ff1. It follows algorithm 7 of SP 800-38G step by step, on big integers. It
// supports only PRF results of at most one block. The numbers in the comments are the numbers of
// the steps.
func specFF1(block cipher.Block, radix, n int, tweak []byte, x halves) halves {
	u := n / 2 // step 1
	v := n - u
	a, b := new(big.Int).SetUint64(x.a), new(big.Int).SetUint64(x.b) // 2
	power := func(m int) *big.Int {
		return new(big.Int).Exp(big.NewInt(int64(radix)), big.NewInt(int64(m)), nil)
	}
	bitLen := new(big.Int).Sub(power(v), big.NewInt(1)).BitLen()
	bytesB := (bitLen + 7) / 8    // 3
	d := 4*((bytesB+3)/4) + 4     // 4
	p := []byte{1, 2, 1, 0, 0, 0} // 5
	big.NewInt(int64(radix)).FillBytes(p[3:])
	p = append(p, 10, byte(u%256))
	p = append(p, big.NewInt(int64(n)).FillBytes(make([]byte, 4))...)
	p = append(p, big.NewInt(int64(len(tweak))).FillBytes(make([]byte, 4))...)
	for i := range 10 { // 6
		q := bytes.Clone(tweak) // 6i
		for (len(q)+bytesB+1)%16 != 0 {
			q = append(q, 0)
		}
		q = append(q, byte(i))
		q = append(q, b.FillBytes(make([]byte, bytesB))...)
		pq := slices.Concat(p, q) // 6ii: the PRF is the last block of AES-CBC with a zero IV
		cipher.NewCBCEncrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(pq, pq)
		r := pq[len(pq)-aes.BlockSize:]
		y := new(big.Int).SetBytes(r[:d]) // 6iii and 6iv
		m := v
		if i%2 == 0 { // 6v
			m = u
		}
		c := y.Add(y, a)
		c.Mod(c, power(m)) // 6vi
		a, b = b, c        // 6vii to 6ix
	}
	return halves{a.Uint64(), b.Uint64()}
}

func parseHalves(t *testing.T, s string, radix int) halves {
	t.Helper()
	a, errA := strconv.ParseUint(s[:len(s)/2], radix, 64)
	b, errB := strconv.ParseUint(s[len(s)/2:], radix, 64)
	if errA != nil || errB != nil {
		t.Fatalf("%q in radix %d: %v, %v", s, radix, errA, errB)
	}
	return halves{a, b}
}

func aesBlock(t rapid.TB, key []byte) cipher.Block {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatalf("AES with a key of %d bytes: %v", len(key), err)
	}
	return block
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("the function did not panic")
		}
	}()
	f()
}
