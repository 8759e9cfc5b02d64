//go:build drill

package drill

import (
	"net/http"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

// Two servers and two workers share a Postgres and a Redis; one of each is killed
// under load and comes back.
func twoByTwo(d *drill) {
	const rate = 250 // per server
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	// A small pool, so that the workers have something to do.
	settings := []string{"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "KGS_POOL_CAPACITY=5000"}
	workers := []*service{newWorker(d, settings...), newWorker(d, settings...)}
	servers := []*service{
		newServer(d, append(settings, "KGS_WORKER=false")...),
		newServer(d, append(settings, "KGS_WORKER=false")...),
	}
	for _, s := range append(workers, servers...) {
		s.launch()
	}
	for _, s := range append(workers, servers...) {
		s.awaitReady()
	}
	await(d, patient, "the pool is full", func() bool { return servers[0].status().full() })

	survivor, victim := newTraffic(d, servers[0]), newTraffic(d, servers[1])
	survivor.start(rate)
	victim.start(rate)
	followElsewhere(d, servers, d.times(200))
	pass(d, d.lasting(10*time.Second))

	servers[1].kill()
	workers[1].kill()
	d.struck(2)
	pass(d, d.lasting(10*time.Second))
	servers[1].start()
	workers[1].start()
	victim.awaitMore(1)
	followElsewhere(d, servers, d.times(200))
	pass(d, d.lasting(10*time.Second))

	if f := survivor.stop(); f.Failed() > 0 {
		d.Errorf("the server that was left alone failed: %+v", f)
	}
	if f := victim.stop(); f.Refused > 0 {
		d.Errorf("the server that was killed refused while it was up: %+v", f)
	}
	await(d, patient, "the pool is full again", func() bool { return servers[0].status().full() })
	servers[0].audit()
	for _, s := range servers {
		s.restart()
		judge(d, s, postgresCensus(postgres.URL), survivor, victim)
	}
	for _, s := range append(servers, workers...) {
		s.stop()
	}
	servers[0].audit()
}

// followElsewhere makes n links, each on one server, and follows each at once on the
// other.
func followElsewhere(d *drill, servers []*service, n int) {
	d.Helper()
	journal, err := loadtest.CreateJournal("")
	if err != nil {
		d.Fatal(err)
	}
	for i := range n {
		here, there := servers[i%2], servers[(i+1)%2]
		entry, err := journal.Intend()
		if err != nil {
			d.Fatal(err)
		}
		made := here.client.Create(d.Context(), entry.URL)
		if made.State != loadtest.Acknowledged {
			d.Fatalf("server %d does not make a link: %+v", i%2, made)
		}
		status, location, err := there.client.Follow(d.Context(), made.Code)
		if err != nil || status != http.StatusFound || location != entry.URL {
			d.Fatalf("%s, just made on the other server, is %d to %q, error %v; want 302 to %q",
				made.Code, status, location, err, entry.URL)
		}
	}
}
