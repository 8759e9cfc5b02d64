//go:build drill

package drill

import (
	"os"
	"strings"
	"time"

	"keypool/internal/testenv"
)

// Redis may evict keys: first when the programs start, then while they run.
func redisEvicts(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d, "--maxmemory-policy", "allkeys-lru")
	client := redisClient(d, redis.Addr)
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "KGS_POOL_CAPACITY=10000"}
	server, worker := newServer(d, append(settings, "KGS_WORKER=false")...), newWorker(d, settings...)
	for _, s := range []*service{server, worker} {
		s.launch()
		refuses(d, s, "REDIS_URL", "allkeys-lru", "noeviction")
	}
	setPolicy := func(policy string) {
		if err := client.ConfigSet(d.Context(), "maxmemory-policy", policy).Err(); err != nil {
			d.Fatal(err)
		}
		d.struck(1)
	}
	setPolicy("noeviction")
	server.start()
	worker.start()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	load := newTraffic(d, server)
	load.start(200)
	setPolicy("allkeys-lru")
	await(d, noticed, "a Redis that may evict keys is alarmed", func() bool {
		return server.status().State == "page" && worker.status().State == "page"
	})
	setPolicy("noeviction")
	await(d, patient, "the alarm is over", func() bool {
		return server.status().State == "ok" && worker.status().State == "ok"
	})
	load.awaitMore(1)
	load.stop()
	worker.stop()
	end(d, postgresCensus(postgres.URL), []*service{server}, load)
}

// noticed is how long the programs may take to see what became of the pool.
const noticed = 5 * time.Second

// refuses waits until a program that was launched has ended with status 2 and a line
// that has all the words.
func refuses(d *drill, s *service, words ...string) {
	d.Helper()
	d.struck(1)
	await(d, patient, s.program+" refuses to start or is ready", func() bool {
		if s.ended() {
			return true
		}
		res, err := s.get("/readyz")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})
	if !s.ended() {
		d.Errorf("%s started all the same", s.program)
		s.stop()
		return
	}
	text, err := os.ReadFile(s.log)
	if err != nil {
		d.Fatal(err)
	}
	status := s.exit(patient)
	for _, word := range words {
		if status != 2 || !strings.Contains(string(text), word) {
			d.Errorf("%s ended with status %d and said %q; want 2, and %q in it", s.program, status, text, word)
		}
	}
}
