//go:build drill

package drill

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"keypool/internal/testenv"

	"github.com/redis/go-redis/v9"
)

// Eight workers walk whole spaces to their ends and go on to the next length, being
// killed at random, while links are made. At full scale it is the spaces of 3 and of
// 4 characters, which all fit into the pool.
func walkToTheEnd(d *drill) {
	lengths, capacity, batch := []int{3}, int64(300_000), int64(50_000)
	if d.scale >= 1 {
		lengths, capacity, batch = []int{3, 4}, 16_000_000, 500_000
	}
	postgres := testenv.StartPostgres(d, "max_connections=200")
	redis := testenv.StartRedis(d, "--appendonly", "no") // it is not killed here
	settings := []string{
		"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "CODE_LENGTH=3", fmt.Sprintf("KGS_POOL_CAPACITY=%d", capacity),
		"KGS_BATCH_MAX=1000000", "FALLBACK=none",
	}
	server := newServer(d, append(settings, "KGS_WORKER=false")...)
	server.start()
	workers := make([]*service, 8)
	for i := range workers {
		workers[i] = newWorker(d, settings...)
		workers[i].launch()
	}
	load := newTraffic(d, server)
	load.start(100)
	for range max(16, d.times(60)) {
		pass(d, rand.N(300*time.Millisecond))
		victim := workers[rand.N(len(workers))]
		victim.kill()
		d.struck(1)
		victim.launch()
	}
	for _, w := range workers {
		w.awaitReady()
	}
	abandoned := awaitDeaths(d, settings, slices.Concat(workers, []*service{server})...)
	makeRoom(d, postgres, redis, settings, capacity, batch)
	load.stop()
	for _, w := range workers {
		w.stop()
	}
	server.restart()
	judge(d, server, postgresCensus(postgres.URL), load)
	server.stop()
	if got := server.audit(); got.Abandoned["crash"] != abandoned || len(got.Abandoned) > 1 {
		d.Errorf("abandoned are %v; want only the %d keys of the server that was killed", got.Abandoned, abandoned)
	}
	met := newWalk()
	met.pool(d, redis)
	met.links(d, postgres)
	for _, length := range lengths {
		abandoned -= met.wantAll(d, length, abandoned)
	}
	if met.codes[lengths[len(lengths)-1]+1] == nil {
		d.Errorf("no code is longer than %d: the next length did not take over", lengths[len(lengths)-1])
	}
}

// walk counts how often each code was met in the pool or as a link, without any idea of
// the order in which they come.
type walk struct {
	codes [11][]uint8 // by length and value
}

func newWalk() *walk { return &walk{} }

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func (w *walk) meet(code string) {
	size, value := 1, 0
	for _, c := range code {
		size, value = 62*size, 62*value+strings.IndexRune(digits, c)
	}
	if len(code) > 4 {
		size, value = 1, 0 // these are too many, and not all there: one is enough to see
	}
	if w.codes[len(code)] == nil {
		w.codes[len(code)] = make([]uint8, size)
	}
	if n := &w.codes[len(code)][value]; *n < 255 {
		*n++
	}
}

// pool reads the list in Redis, which the drill has to know for this.
func (w *walk) pool(d *drill, redis *testenv.Server) {
	d.Helper()
	client := redisClient(d, redis.Addr)
	list := poolList(d, client)
	const chunk = 50_000
	for from := int64(0); ; from += chunk {
		codes, err := client.LRange(d.Context(), list, from, from+chunk-1).Result()
		if err != nil {
			d.Fatal(err)
		}
		for _, code := range codes {
			w.meet(code)
		}
		if len(codes) < chunk {
			return
		}
	}
}

// poolList is the name of the pool in Redis.
func poolList(d *drill, client *redis.Client) string {
	d.Helper()
	lists, err := client.Keys(d.Context(), "keypool:{*}:keys").Result()
	if err != nil || len(lists) != 1 {
		d.Fatalf("the pool in Redis is %v, error %v; want one list", lists, err)
	}
	return lists[0]
}

func (w *walk) links(d *drill, postgres *testenv.Server) {
	d.Helper()
	err := postgresCensus(postgres.URL)(d.Context(), func(code, _ string) { w.meet(code) })
	if err != nil {
		d.Fatal(err)
	}
}

// wantAll fails unless every code of a length was met exactly once, but for the abandoned
// ones of the server that was killed. It gives how many those are.
func (w *walk) wantAll(d *drill, length int, abandoned int64) (missing int64) {
	d.Helper()
	var twice int
	for _, n := range w.codes[length] {
		switch {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	d.note("of the %d codes of %d characters %d abandoned with a server, each other one there once",
		len(w.codes[length]), length, missing)
	if missing > abandoned || twice > 0 {
		d.Errorf("of the %d codes of %d characters %d are nowhere and %d there twice",
			len(w.codes[length]), length, missing, twice)
	}
	return missing
}
