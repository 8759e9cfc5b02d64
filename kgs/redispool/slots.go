package redispool

import (
	"strconv"
)

const (
	// MaxLists is the greatest number of lists of a pool.
	MaxLists = 64
	// slots is the number of hash slots of a Redis Cluster.
	slots = 16384
)

// tag returns the hash tag of a list. List 0 has the name of the pool as its tag. The slots of the
// lists follow the van der Corput sequence in base 3 (van der Corput, "Verteilungsfunktionen",
// 1935), which starts at the slot of list 0. So the first three lists are a third of all slots apart,
// and every number of lists is spread evenly. The nodes of a Cluster usually have ranges of
// consecutive slots, so consecutive lists are on different masters.
func tag(name string, list int) string {
	if list == 0 {
		return name
	}
	want := (slotOf(name) + corput(list)) % slots
	begin := name + "/" + strconv.Itoa(list) + "."
	crc := crc16(0, begin)
	for i := 0; ; i++ { // one of 16384 numbers fits on average
		if number := strconv.Itoa(i); int(crc16(crc, number))%slots == want {
			return begin + number
		}
	}
}

// corput returns element n of the van der Corput sequence in base 3, as a number of slots, rounded up.
func corput(n int) int {
	numerator, denominator := 0, 1
	for ; n > 0; n /= 3 {
		numerator, denominator = 3*numerator+n%3, 3*denominator
	}
	return (slots*numerator + denominator - 1) / denominator
}

// slotOf returns the slot of the keys with a hash tag.
func slotOf(tag string) int { return int(crc16(0, tag)) % slots }

// crc16 continues the checksum crc of a text with a further text. It is the CRC-16/XMODEM of the
// Redis Cluster specification.
func crc16(crc uint16, text string) uint16 {
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}
