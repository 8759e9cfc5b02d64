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

// tag returns the hash tag of a list. The tag decides the slot of the list in a Cluster, and therefore the master of
// the list. The lists should be on different masters. A master usually has consecutive slots, so tag spreads the lists
// evenly over all slots, for any number of lists. The tag of list 0 is the name of the pool. The distances of the other
// lists from the slot of list 0 follow the van der Corput sequence in base 3 (van der Corput, "Verteilungsfunktionen",
// 1935). For example, the first three lists divide the slots into three equal parts.
func tag(name string, list int) string {
	if list == 0 {
		return name
	}
	want := (slotOf(name) + corput(list)) % slots
	begin := name + "/" + strconv.Itoa(list) + "."
	crc := crc16(0, begin)
	for i := 0; ; i++ { // takes 16384 attempts on average
		if number := strconv.Itoa(i); int(crc16(crc, number))%slots == want {
			return begin + number
		}
	}
}

// corput returns element n of the van der Corput sequence in base 3, multiplied by the number of slots
// and rounded up.
func corput(n int) int {
	numerator, denominator := 0, 1
	for ; n > 0; n /= 3 {
		numerator, denominator = 3*numerator+n%3, 3*denominator
	}
	return (slots*numerator + denominator - 1) / denominator
}

// slotOf returns the slot of the keys with a hash tag.
func slotOf(tag string) int { return int(crc16(0, tag)) % slots }

// crc16 returns the CRC-16/XMODEM of the Redis Cluster specification. crc is the checksum of the
// preceding text, or 0.
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
