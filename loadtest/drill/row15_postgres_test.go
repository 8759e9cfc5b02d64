//go:build drill

package drill

import (
	"net/http"
	"strings"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

const (
	refusal  = time.Second      // within what time a creation must be refused
	recovery = 10 * time.Second // within what time links must be made again
)

// Postgres is killed under load and started again some seconds later, several times.
func postgresKilled(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	server := newServer(d, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL, "KGS_POOL_CAPACITY=100000")
	server.start()
	await(d, patient, "the pool is full", func() bool { return server.status().full() })
	load := newTraffic(d, server)
	var slowest, longest, hiccup time.Duration
	wrong := 0 // answers to creations that the store is away for
	for range d.times(4) {
		load.start(300)
		load.awaitMore(int64(100 + d.times(500)))
		postgres.Kill()
		d.struck(1)
		cached := newest(load, 20)
		for begin := time.Now(); time.Since(begin) < d.lasting(2*time.Second)+time.Second; {
			hiccup = max(hiccup, followCached(d, server, cached))
			took, ok := refused(d, server)
			slowest = max(slowest, took)
			if !ok {
				wrong++
			}
		}
		load.stop() // what it was refused is in the journal
		postgres.Restart()
		back := time.Now()
		load.start(300)
		await(d, recovery, "links are made again", func() bool { return load.recorder.Figures().Acknowledged > 0 })
		longest = max(longest, time.Since(back))
		load.stop()
	}
	// The machine has hiccups of its own, which an answer from memory shows.
	if slowest > refusal+hiccup {
		d.Errorf("without the store a creation is refused after %v, a cached link followed within %v; want %v", slowest, hiccup, refusal)
	}
	if wrong > 0 {
		d.Errorf("without the store %d creations were answered otherwise than with 503 and Retry-After", wrong)
	}
	d.note("refused within %v, back after %v", slowest.Round(time.Millisecond), longest.Round(time.Millisecond))
	end(d, postgresCensus(postgres.URL), []*service{server}, load)
}

// newest is the last n links that were acknowledged, which the server must remember.
func newest(load *traffic, n int) (links []loadtest.Entry) {
	entries := load.journal.Entries()
	for i := len(entries) - 1; i >= 0 && len(links) < n; i-- {
		if entries[i].State == loadtest.Acknowledged {
			links = append(links, entries[i])
		}
	}
	return links
}

// followCached follows links without the store, and returns how long that took at most.
func followCached(d *drill, s *service, links []loadtest.Entry) (slowest time.Duration) {
	d.Helper()
	for _, link := range links {
		begin := time.Now()
		status, location, err := s.client.Follow(d.Context(), link.Code)
		if status != http.StatusFound || location != link.URL {
			d.Fatalf("without the database the cached link %s gives status %d and leads to %q, error %v; want %q",
				link.Code, status, location, err, link.URL)
		}
		slowest = max(slowest, time.Since(begin))
	}
	return slowest
}

// refused tries to make a link while the store is away. It returns how long the answer
// took, and whether it was the right one: 503, and when to try again.
func refused(d *drill, s *service) (took time.Duration, ok bool) {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), http.MethodPost, s.url+"/shorten", strings.NewReader(`{"url":"https://example.com/"}`))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	begin := time.Now()
	res, err := s.prober.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	return time.Since(begin), res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != ""
}
