package fault

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"keypool/loadtest/lab"
)

// walkRows are the rows that look for every code of a space.
func walkRows() []row {
	return []row{
		{
			Name: "fault/walk", Title: "whole spaces walked to their ends", Alone: true,
			Summary: "Eight workers walk the codes of 3 characters, at full scale also those of 4, to the end and go on to the next length, " +
				"while workers are killed at random and links are created.",
			Run: inject(walkToTheEnd),
			Claims: theLinks(
				counted("whole space", "codes", "Each code of the space is a link or waits in the pool exactly once, but for those that a killed server abandoned."),
				observed("next length", "When a space is used up, the next length takes over."),
				observed(abandoned, "Only the keys in the batches of a killed server are abandoned, and none of a killed worker."),
			),
		},
	}
}

// walkToTheEnd walks spaces that fit into the pool as a whole.
func walkToTheEnd(r *run) {
	longest, capacity, batch := 3, int64(300_000), int64(50_000)
	if r.Scale >= 1 {
		longest, capacity, batch = 4, 16_000_000, 500_000
	}
	r.fastDatabases(fmt.Sprintf("KGS_POOL_CAPACITY=%d", capacity), "KGS_BATCH_MAX=1000000", "CODE_LENGTH=3", "FALLBACK=none")
	server := r.started(noWorker)
	workers := launch(8, func() *lab.Program { return r.worker() })
	r.start(server, 100)
	for range max(16, r.Times(60)) {
		lab.Pause(r, rand.N(300*time.Millisecond)) //nolint:gosec // nothing secret
		victim := workers[rand.N(len(workers))]    //nolint:gosec // nothing secret
		victim.Kill()
		r.strike(1)
		victim.Launch()
	}
	each(workers, awaitReady)
	lost := awaitDeaths(r, append(workers, server)...)
	makeRoom(r, capacity, batch)
	each(workers, (*lab.Program).Stop)
	r.sawAbandoned(r.end(server), lost)
	c := countCodes(r)
	for length := 3; length <= longest; length++ {
		missing := int64(math.Pow(62, float64(length))) - c.found[length]
		r.saw("whole space", missing <= lost && c.more[length] == 0, "of the codes of %d characters %d are nowhere, "+
			"%d abandoned at most, and %d are there twice", length, missing, lost, c.more[length])
		lost -= missing
	}
	r.saw("next length", c.found[longest+1] > 0, "%d codes of %d characters", c.found[longest+1], longest+1)
}

// codes counts the codes that are in the pool or are links. It assumes nothing about the order of
// codes. Those of more than four characters are too many to tell apart.
type codes struct {
	times       map[[4]byte]int
	found, more [11]int64 // by length: different codes, and those that were found before
}

func (c *codes) add(code string) {
	if size := len(code); size <= 4 {
		key := [4]byte([]byte((code + "    ")[:4]))
		if c.times[key]++; c.times[key] > 1 {
			c.more[size]++
			return
		}
	}
	c.found[len(code)]++
}

// countCodes counts the codes of the list in Redis that is the pool, and of the links table.
func countCodes(r *run) *codes {
	c := &codes{times: make(map[[4]byte]int)}
	client := lab.RedisClient(r, r.redis.URL)
	lists, err := client.Keys(r.Context(), "keypool:{*}:keys").Result()
	r.Must(err)
	if len(lists) != 1 {
		r.Fatalf("the pool in Redis is %v; want one list", lists)
	}
	const chunk = 50_000
	for from, more := int64(0), true; more; from += chunk {
		some, err := client.LRange(r.Context(), lists[0], from, from+chunk-1).Result()
		r.Must(err)
		for _, code := range some {
			c.add(code)
		}
		more = len(some) == chunk
	}
	r.Must(lab.Census(r.links)(r.Context(), func(code, _ string) { c.add(code) }))
	return c
}
