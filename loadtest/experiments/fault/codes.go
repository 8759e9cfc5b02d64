package fault

import (
	"strings"

	"keypool/loadtest/lab"

	"github.com/redis/go-redis/v9"
)

// codes counts how often each code is in the pool or is a link, by its length and value. It
// assumes nothing about the order of codes.
type codes [11][]uint8

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// readCodes counts the codes of a pool and of the links table.
func readCodes(r *run, pool, links *lab.Database) *codes {
	var c codes
	c.readPool(r, pool)
	r.Must(lab.Census(links.URL)(r.Context(), func(code, _ string) { c.add(code) }))
	return &c
}

// readPool reads the list in Redis that is the pool.
func (c *codes) readPool(r *run, pool *lab.Database) {
	client := lab.RedisClient(r, pool.URL)
	list := poolList(r, client)
	const chunk = 50_000
	for from := int64(0); ; from += chunk {
		some, err := client.LRange(r.Context(), list, from, from+chunk-1).Result()
		r.Must(err)
		for _, code := range some {
			c.add(code)
		}
		if len(some) < chunk {
			return
		}
	}
}

func (c *codes) add(code string) {
	size, value := 1, 0
	for _, d := range code {
		size, value = len(digits)*size, len(digits)*value+strings.IndexRune(digits, d)
	}
	if len(code) > 4 {
		size, value = 1, 0 // these are too many, and not all there: it counts that there is one
	}
	if c[len(code)] == nil {
		c[len(code)] = make([]uint8, size)
	}
	if n := &c[len(code)][value]; *n < 255 {
		*n++
	}
}

// sawWhole observes whether every code of a length is there exactly once, but for at most
// so many that a killed server abandoned. It returns how many are missing.
func (c *codes) sawWhole(r *run, length int, lost int64) (missing int64) {
	var twice int
	for _, n := range c[length] {
		switch {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	r.saw("whole space", missing <= lost && twice == 0 && len(c[length]) > 0,
		"of the %d codes of %d characters %d are nowhere, %d abandoned at most, and %d are there twice", len(c[length]), length, missing, lost, twice)
	return missing
}

// poolList is the name of the pool in Redis.
func poolList(r *run, client *redis.Client) string {
	lists, err := client.Keys(r.Context(), "keypool:{*}:keys").Result()
	r.Must(err)
	if len(lists) != 1 {
		r.Fatalf("the pool in Redis is %v; want one list", lists)
	}
	return lists[0]
}
