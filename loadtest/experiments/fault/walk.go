package fault

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"keypool/loadtest/lab"
)

// walkRows returns the fault row that checks every code of a space.
func walkRows() []row {
	return []row{
		{
			Name: "fault/walk", Title: "workers killed while they use up a whole space", Alone: true,
			Summary: "Eight workers push all codes of 3 characters to the pool. At scale 1, they also push all codes of 4 characters. " +
				"Then they continue with the next length. Meanwhile workers are killed at random, and links are created.",
			Run: inject(walkToTheEnd),
			Claims: theLinks(
				counted("each code exactly once", "codes", "Each code of the space occurs exactly once, either as a link or as a key in the pool. "+
					"The only exceptions are the codes that were abandoned because a server was killed."),
				observed("next code length", "When all codes of one length are reserved, the workers continue with the next length."),
				observed(abandoned, "Only keys in the batches of a killed server are abandoned. No key of a killed worker is abandoned."),
			),
		},
	}
}

// walkToTheEnd reserves all codes of spaces that are small enough to fit into the pool.
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
		lab.Pause(r, rand.N(300*time.Millisecond)) //nolint:gosec // the random number need not be secret
		victim := workers[rand.N(len(workers))]    //nolint:gosec // the random number need not be secret
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
		r.saw("each code exactly once", missing <= lost && c.more[length] == 0, "%d codes with %d characters are missing (no link and not in the pool); "+
			"at most %d may be missing, because killed servers had them; %d codes occur more than once", missing, length, lost, c.more[length])
		lost -= missing
	}
	r.saw("next code length", c.found[longest+1] > 0, "%d codes with %d characters were found", c.found[longest+1], longest+1)
}

// codes counts the codes that are in the pool or are links. It detects repeated codes of up to four
// characters only, because the row checks no space of longer codes.
type codes struct {
	times       map[[4]byte]int // number of times that a code was added
	found, more [11]int64       // number of different codes and number of repetitions, by length of the code
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

// countCodes counts the codes in the pool, which is a list in Redis, and the codes of all links.
func countCodes(r *run) *codes {
	c := &codes{times: make(map[[4]byte]int)}
	client := lab.RedisClient(r, r.redis.URL)
	lists, err := client.Keys(r.Context(), "keypool:{*}:keys").Result()
	r.Must(err)
	if len(lists) != 1 {
		r.Fatalf("the pool in Redis consists of the lists %v, want one list", lists)
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
