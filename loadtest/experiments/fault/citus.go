package fault

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

const (
	// citusShards is the number of shards of each table.
	citusShards = "8"
	// citusRate is the number of creations per second. Row 35 creates citusKillRate per second at scale 1.
	citusRate     = 200
	citusKillRate = 1000
	// citusOutage is how long a worker is down. It is the same at every scale. The creations that are in progress when the
	// worker fails have an unknown outcome. In a shorter outage, their share of all creations would be greater.
	citusOutage = time.Minute
	// citusHealthy is how long row 35 creates links before the fault, at scale 1. It is as long as the outage, so that rare
	// delays, such as a checkpoint, have the same chance in both measurements.
	citusHealthy = citusOutage

	otherNodes  = "links of other workers redirect"
	nodeLinks   = "links of the worker are refused"
	coordinator = "creations without the coordinator"
	killLatency = "p99.9 without the worker"
	slowRefusal = "time of an answer without the coordinator"
	moved       = "shards moved"
	direct      = "statements sent to the new worker"
)

// citusRows returns the fault rows in which the links are distributed over a Citus cluster of a coordinator and two workers.
func citusRows() []row {
	return []row{
		{
			Name: "citus/35", Title: "worker of Citus killed", Alone: true,
			Summary: "The links are distributed over two workers. One of them is killed with SIGKILL under load, and restarted 60 s later.",
			Run: inject(func(r *run) {
				loseWorker(r, float64(max(citusRate, r.Times(citusKillRate))), (*lab.Database).Kill, (*lab.Database).Restart)
			}),
			Claims: theLinks(availableTo(99.9),
				observed(otherNodes, "While the worker is down, a link that is stored on the other worker redirects."),
				observed(nodeLinks, "While the worker is down, the server answers a request for an uncached link that is stored on this worker with 503 and Retry-After."),
				latencyWithoutWorker(),
				timed("recovery time", "Links that are stored on the worker redirect within 10 s after the worker is available again.")),
			Controls: without(available, "placement"),
		},
		{
			Name: "citus/35b", Title: "worker of Citus frozen", Alone: true,
			Summary: "The links are distributed over two workers. One of them is frozen with SIGSTOP under load, and continues 60 s later.",
			Run:     inject(func(r *run) { loseWorker(r, citusRate, (*lab.Database).Freeze, (*lab.Database).Thaw) }),
			Claims: theLinks(availableTo(98),
				observed(otherNodes, "While the worker is frozen, a link that is stored on the other worker redirects."),
				observed(nodeLinks, "While the worker is frozen, the server answers a request for an uncached link that is stored on this worker with 503 and Retry-After."),
				timed("recovery time", "Links that are stored on the worker redirect within 10 s after the worker is thawed.")),
			Controls: without(available, "placement"),
		},
		{
			Name: "citus/35c", Title: "worker added to Citus and shards moved", Alone: true,
			Summary: "A third worker is added under load, and citus_rebalance_start moves shards to it.",
			Run:     inject(moveShards),
			Claims: theLinks(availableTo(99),
				observed(moved, "The new worker has shards, and new links are stored on it."),
				observed(direct, "After shards have moved to the new worker, the server connects to this worker.")),
			Controls: without(direct, "places"),
		},
		{
			Name: "citus/35d", Title: "coordinator of Citus killed", Alone: true,
			Summary: "The coordinator is killed with SIGKILL under load, and restarted later (30 s later at scale 1). The pool is not refilled in this time, but the server takes keys from the full pool in Redis.",
			Run:     inject(loseCoordinator),
			Claims: theLinks(availableTo(98),
				observed("cached links redirect", "While the coordinator is down, links in the cache redirect."),
				observed(coordinator, "While the coordinator is down, every creation is answered with 201, or with 503 and Retry-After."),
				timed(slowRefusal, "While the coordinator is down, a creation is answered within 1 s plus the time of the slowest redirect from the cache. The slowest redirect shows how busy the machine is."),
				timed("recovery time", "Links are created within 10 s after the coordinator is available again."),
			),
			Controls: without(available, "placement"),
		},
	}
}

// citus starts a cluster of two workers over which the links are distributed, and makes the programs use it.
func (r *run) citus() *lab.Cluster {
	c := lab.Citus(r, 2, manyConnections)
	r.use(c.Coordinator, lab.Redis(r), "KGS_POOL_CAPACITY=200000")
	setup := r.server()
	migration := setup.Begin("migrate", "--shards", citusShards)
	<-migration.Done()
	r.Must(migration.Err())
	return c
}

// create waits until a load has created n links. If this takes longer than a minute (patient), create refutes
// the claim about creations. In the control without the protection placement, this can happen even before the
// fault: a commit opens connections between the nodes. If the commit does not end within its time limit, these
// connections are closed, and the next commit must open them again.
func (r *run) create(load *lab.Load, n int64) {
	enough := load.Figures().Acknowledged + n
	if !lab.Happens(r, patient, func() bool { return load.Figures().Acknowledged >= enough }) {
		r.Refute(available, "only %d of %d links were created within %v", n-enough+load.Figures().Acknowledged, n, patient)
	}
}

// loseWorker makes a worker unavailable while links are created at the given rate (per second), and while links are
// followed. One load ends before the next one begins, so the server never gets creations at a higher rate. The figures of
// availability contain no load that begins after the outage.
func loseWorker(r *run, rate float64, lose, mend func(*lab.Database)) {
	c := r.citus()
	server := r.startFull()
	other := r.started(noWorker) // this server has no link in its cache
	load := r.start(server, rate)
	r.create(load, int64(r.Times(2000)))
	r.stop(load)
	lost := c.Workers[0]
	on, elsewhere := r.linksOn(c, lost, acknowledged(load))

	healthy := r.start(server, rate)
	for range 3 { // three calls, because one call would take as long as the time limit of create
		r.create(healthy, int64(rate*r.Lasting(citusHealthy/3).Seconds()))
	}
	r.record.Worker.Before, r.record.Worker.Small = r.stop(healthy).Latency.P999, r.Scale < 1
	load = r.start(server, rate)
	r.create(load, citusRate)
	lose(lost)
	r.strike(1)
	began, later := time.Now(), (*lab.Load)(nil)
	for i := 0; time.Since(began) < citusOutage; i++ {
		if later == nil && time.Since(began) > time.Second {
			r.serve(load)
			later = r.start(server, rate)
		}
		r.follow(otherNodes, other, elsewhere[i%len(elsewhere)].Code, elsewhere[i%len(elsewhere)].URL)
		link := on[i%len(on)]
		answer, err := other.Client.Send(r.Context(), http.MethodGet, "/"+link.Code, nil, nil)
		r.saw(nodeLinks, err == nil && answer.Status == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != "",
			"%s", answerTo(link.Code, err, fmt.Sprintf("status %d and Retry-After %q", answer.Status, answer.Header.Get("Retry-After"))))
		lab.Pause(r, 50*time.Millisecond)
	}
	r.serve(later)
	r.record.Worker.Without = later.Figures().Latency.P999
	r.start(server, rate) // this load is not part of the figures, because the worker is available again
	mend(lost)
	back := time.Now()
	link := on[len(on)-1]
	lab.Wait(r, patient, "links of the worker redirect", func() bool {
		status, location, err := other.Client.Follow(r.Context(), link.Code)
		return err == nil && status == http.StatusFound && location == link.URL
	})
	r.took("recovery time", 10*time.Second, time.Since(back))
	lab.Pause(r, 5*time.Second) // meanwhile the server uses the keys that were set aside
	r.end(server, other)
}

// workerLatency holds the p99.9 of creations before a worker fails, and the p99.9 while the worker is down. The first
// second of the outage does not count.
type workerLatency struct {
	Before, Without time.Duration
	Small           bool // the scale is below 1, so few creations are slower than the p99.9
}

// busyLatency is the p99.9 of a healthy server above which the machine is too busy to compare latencies.
const busyLatency = 200 * time.Millisecond

// latencyWithoutWorker returns the claim that creations are not slower while a worker is down.
func latencyWithoutWorker() claim {
	return ifInjected(report.Speed, killLatency, "ms",
		"While the worker is down, the p99.9 of a creation is at most twice the p99.9 before the fault. The first second after the fault does not count. The time of a creation begins when the creation is due.",
		func(r *Record) experiment.Verdict {
			w := r.Worker
			if w.Without == 0 {
				return experiment.Verdict{}
			}
			before, without := float64(w.Before.Microseconds())/1000, float64(w.Without.Microseconds())/1000
			if w.Before > busyLatency && without <= 2*before { // the bound is so high that the claim would nearly always hold
				return experiment.NotJudged("the machine was too busy: the p99.9 was %.1f ms before the fault and %.1f ms while the worker was down", before, without)
			}
			return experiment.AtMost(2*before, without, "the p99.9 was %.1f ms before the fault and %.1f ms while the worker was down", before, without)
		}).UnlessSmall(func(r *Record) bool { return r.Worker.Small })
}

// linksOn divides links into the links that are stored on the worker (on) and all other links (elsewhere).
func (r *run) linksOn(c *lab.Cluster, worker *lab.Database, links []loadtest.Entry) (on, elsewhere []loadtest.Entry) {
	codes, err := lab.Values[string](r.Context(), c.Coordinator.URL, `SELECT code FROM ranked_links WHERE get_shard_id_for_distribution_column('ranked_links', rank) IN
		(SELECT shardid FROM pg_dist_placement JOIN pg_dist_node USING (groupid) WHERE nodename || ':' || nodeport = $1)`, worker.Addr)
	r.Must(err)
	slices.Sort(codes)
	for _, link := range links {
		if _, local := slices.BinarySearch(codes, link.Code); local {
			on = append(on, link)
		} else {
			elsewhere = append(elsewhere, link)
		}
	}
	if len(on) == 0 || len(elsewhere) == 0 {
		r.Fatalf("%d links are stored on the worker and %d elsewhere, so the fault row proves nothing", len(on), len(elsewhere))
	}
	return on, elsewhere
}

func moveShards(r *run) {
	c := r.citus()
	server := r.startFull()
	load := r.start(server, citusRate)
	r.create(load, int64(r.Times(2000)))
	added := c.AddWorker()
	r.strike(1)
	lab.Execute(r, c.Coordinator.URL, `SELECT citus_rebalance_start(shard_transfer_mode => 'force_logical')`)
	lab.Wait(r, 10*time.Minute, "the shards have moved", func() bool {
		return lab.Value[bool](r, c.Coordinator.URL, `SELECT bool_and(state = 'finished') FROM pg_dist_background_job`)
	})
	r.create(load, 10*citusRate)
	connected := r.connected(added)
	r.saw(direct, connected, "the server has %s to the new worker", either(connected, "connections", "no connection"))
	r.serve(load)
	links := acknowledged(load)
	on, _ := r.linksOn(c, added, links[len(links)-5*citusRate:])
	r.saw(moved, len(on) > 0, "%d of the last %d links are stored on the new worker", len(on), 5*citusRate)
	r.end(server)
}

// connected reports whether a server has connections to a worker. Connections from other nodes do not count: their
// application names begin with citus.
func (r *run) connected(worker *lab.Database) bool {
	return lab.Value[bool](r, worker.URL, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'client backend'
		AND datname = current_database() AND pid <> pg_backend_pid() AND application_name NOT LIKE 'citus%')`)
}

func loseCoordinator(r *run) {
	c := r.citus()
	server := r.startFull()
	load := r.start(server, citusRate)
	r.create(load, int64(r.Times(1000)))
	r.stop(load)
	cached := acknowledged(load)
	cached = cached[max(0, len(cached)-20):]
	load = r.start(server, citusRate)
	r.create(load, citusRate)
	var slowest, hiccup time.Duration
	c.Coordinator.Kill()
	r.strike(1)
	for began := time.Now(); time.Since(began) < 3*time.Second+r.Lasting(27*time.Second); {
		for _, link := range cached {
			hiccup = max(hiccup, r.follow("cached links redirect", server, link.Code, link.URL))
		}
		sent := time.Now()
		o := server.Client.Create(r.Context(), "https://example.com/")
		slowest = max(slowest, time.Since(sent))
		right := o.State == loadtest.Acknowledged || o.State == loadtest.Refused && strings.HasPrefix(o.Detail, "503 ") && o.RetryAfter != ""
		r.saw(coordinator, right, "%s", created(o))
	}
	r.took(slowRefusal, time.Second+hiccup, slowest)
	c.Coordinator.Restart()
	back, before := time.Now(), load.Figures().Acknowledged
	lab.Wait(r, patient, "links are created again", func() bool { return load.Figures().Acknowledged > before })
	r.took("recovery time", 10*time.Second, time.Since(back))
	r.serve(load)
	r.end(server)
}
