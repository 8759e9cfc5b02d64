package schemes

import (
	"crypto/rand"
	"math/big"
)

// class is how codes look to an index: their length, their digits and their order.
type class struct {
	name      string
	title     string
	digits    numerals
	length    int
	power     string                 // the size as it is told
	size      *big.Int               // how many codes there are
	ascending bool                   // each is above the one before
	number    func(i int64) *big.Int // of the i-th code, as the schemes of the class make them
}

const (
	timeShift    = 22 // the bits of a Snowflake below its time: ten of a machine, twelve of a sequence
	machineShift = 12
	someMachine  = 7
	perMilli     = 4 // links in a millisecond, as a busy server makes them
)

func classes() []class {
	codes := base62.sixes()
	uuids := new(big.Int).Lsh(big.NewInt(1), 128)
	return []class{
		{name: "counter", title: "a counter, six digits", digits: base62, length: 6, power: "62^6", size: codes, ascending: true, number: big.NewInt},
		{name: "time", title: "time first, eleven digits", digits: base62, length: 11, power: "2^63", size: new(big.Int).Lsh(big.NewInt(1), 63), ascending: true, number: func(i int64) *big.Int {
			const day = 86_400_000 // some milliseconds since the epoch
			ms := 300*day + i/perMilli
			return big.NewInt(ms<<timeShift | someMachine<<machineShift | i%perMilli)
		}},
		{name: "random", title: "no order, six digits", digits: base62, length: 6, power: "62^6", size: codes, number: below(codes)},
		{name: "hash", title: "no order, six digits of base64url", digits: base64url, length: 6, power: "64^6", size: base64url.sixes(), number: below(base64url.sixes())},
		{name: "uuid", title: "no order, 22 digits", digits: base62, length: 22, power: "2^128", size: uuids, number: below(uuids)},
	}
}

func classOf(name string) class {
	for _, c := range classes() {
		if c.name == name {
			return c
		}
	}
	panic("there is no class " + name)
}

// below draws numbers by chance.
func below(size *big.Int) func(int64) *big.Int {
	return func(int64) *big.Int {
		n, _ := rand.Int(rand.Reader, size) // the reader never fails
		return n
	}
}

// code writes a number as a code of the class.
func (c class) code(n *big.Int) (string, bool) {
	if n.Cmp(c.size) >= 0 {
		return "", false
	}
	return c.digits.code(n, c.length)
}

// holds says whether a code has the length and the digits of the class.
func (c class) holds(code string) bool {
	n, ok := c.digits.number(code)
	return ok && len(code) == c.length && n.Cmp(c.size) < 0
}
