//go:build drill

package drill

import (
	"net/http"
	"testing"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

// Two servers and two workers share a Postgres and a Redis; one of each is killed
// under load and comes back.
func TestTwoByTwo(t *testing.T) {
	const rate = 250 // per server
	postgres, redis := testenv.StartPostgres(t), testenv.StartRedis(t)
	// A small pool, so that the workers have something to do.
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "KGS_POOL_CAPACITY=5000"}
	workers := []*service{newWorker(t, settings...), newWorker(t, settings...)}
	servers := []*service{
		newServer(t, append(settings, "KGS_WORKER=false")...),
		newServer(t, append(settings, "KGS_WORKER=false")...),
	}
	for _, s := range append(workers, servers...) {
		s.launch()
	}
	for _, s := range append(workers, servers...) {
		s.awaitReady()
	}
	await(t, patient, "the pool is full", func() bool { return servers[0].status().full() })

	survivor, victim := newTraffic(t, servers[0]), newTraffic(t, servers[1])
	survivor.start(rate)
	victim.start(rate)
	followElsewhere(t, servers, times(200))
	pass(t, lasting(10*time.Second))

	servers[1].kill()
	workers[1].kill()
	pass(t, lasting(10*time.Second))
	servers[1].start()
	workers[1].start()
	victim.awaitMore(1)
	followElsewhere(t, servers, times(200))
	pass(t, lasting(10*time.Second))

	if f := survivor.stop(); f.Failed() > 0 {
		t.Errorf("the server that was left alone failed: %+v", f)
	}
	if f := victim.stop(); f.Refused > 0 {
		t.Errorf("the server that was killed refused while it was up: %+v", f)
	}
	await(t, patient, "the pool is full again", func() bool { return servers[0].status().full() })
	servers[0].audit()
	for _, s := range servers {
		s.restart()
		judge(t, s, postgresCensus(postgres.URL), survivor, victim)
	}
	for _, s := range append(servers, workers...) {
		s.stop()
	}
	servers[0].audit()
}

// followElsewhere makes n links, each on one server, and follows each at once on the
// other.
func followElsewhere(t *testing.T, servers []*service, n int) {
	t.Helper()
	journal, err := loadtest.CreateJournal("")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		here, there := servers[i%2], servers[(i+1)%2]
		entry, err := journal.Intend()
		if err != nil {
			t.Fatal(err)
		}
		made := here.client.Create(t.Context(), entry.URL)
		if made.State != loadtest.Acknowledged {
			t.Fatalf("server %d does not make a link: %+v", i%2, made)
		}
		status, location, err := there.client.Follow(t.Context(), made.Code)
		if err != nil || status != http.StatusFound || location != entry.URL {
			t.Fatalf("%s, just made on the other server, is %d to %q, error %v; want 302 to %q",
				made.Code, status, location, err, entry.URL)
		}
	}
}
