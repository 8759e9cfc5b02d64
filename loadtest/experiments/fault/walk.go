package fault

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"keypool/loadtest/lab"
)

// walkRows are the rows that look for every code of a space.
func walkRows() []row {
	return []row{
		{
			name: "walk", title: "whole spaces walked to their ends", alone: true,
			injected: "Eight workers walk the codes of 3 characters, at full scale also those of 4, to the end and go on to the next length, " +
				"while workers are killed at random and links are created.",
			run: walkToTheEnd,
			claims: theLinks(
				counted("whole space", "codes", "Each code of the space is a link or waits in the pool exactly once, but for those that a killed server abandoned."),
				observed("next length", "When a space is used up, the next length takes over."),
				observed(abandoned, "Only the keys in the batches of a killed server are abandoned, and none of a killed worker."),
			),
		},
	}
}

// walkToTheEnd walks spaces that fit into the pool as a whole.
func walkToTheEnd(r *run) {
	lengths, capacity, batch := []int{3}, int64(300_000), int64(50_000)
	if r.Scale >= 1 {
		lengths, capacity, batch = []int{3, 4}, 16_000_000, 500_000
	}
	// Redis is not killed here.
	r.use(lab.Postgres(r, manyConnections), lab.DurableRedis(r, "--appendonly", "no"),
		fmt.Sprintf("KGS_POOL_CAPACITY=%d", capacity), "KGS_BATCH_MAX=1000000", "CODE_LENGTH=3", "FALLBACK=none")
	server := r.server(noWorker)
	server.Start()
	workers := launch(8, func() *lab.Program { return r.worker() })
	r.start(server, 100)
	for range max(16, r.Times(60)) {
		lab.Pause(r, rand.N(300*time.Millisecond)) //nolint:gosec // nothing secret
		victim := workers[rand.N(len(workers))]    //nolint:gosec // nothing secret
		victim.Kill()
		r.strike(1)
		victim.Launch()
	}
	for _, w := range workers {
		w.AwaitReady(patient)
	}
	lost := awaitDeaths(r, append(workers, server)...)
	makeRoom(r, capacity, batch)
	for _, w := range workers {
		w.Stop()
	}
	r.sawAbandoned(r.end(server), lost)
	found := countCodes(r)
	for _, length := range lengths {
		lost -= found.sawWhole(r, length, lost)
	}
	next := lengths[len(lengths)-1] + 1
	r.saw("next length", found[next] != nil, "codes of %d characters: %t", next, found[next] != nil)
}

// codes counts how often each code is in the pool or is a link, by its length and value. It
// assumes nothing about the order of codes.
type codes [11][]uint8

// countCodes counts the codes of the list in Redis that is the pool, and of the links table.
func countCodes(r *run) *codes {
	var c codes
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
	return &c
}

func (c *codes) add(code string) {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
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
	twice := 0
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
