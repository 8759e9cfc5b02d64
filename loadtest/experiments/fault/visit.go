package fault

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

// The names of claims about visits.
const (
	visitsOnce    = "no visit twice"
	visitsKept    = "no lost visit"
	visitsFitted  = "no dropped visit"
	visitsStored  = "time until all visits are stored"
	unflushed     = "time of lost visits"
	redirectsKept = "no failed redirect"
)

const (
	// visitRate is the number of GET requests per second.
	visitRate = 300
	// visitsFlush is the default of VISITS_FLUSH.
	visitsFlush = time.Second
	// flushLimit is the time limit of one flush of few links.
	flushLimit = 5 * time.Second
)

// visitRows returns the fault rows that compare the visits in the database with the redirects that clients got.
func visitRows() []row {
	once := counted(visitsOnce, "surplus visits", "No GET request counts as more than one visit.")
	lasting := counted(visitsKept, "lost visits", "Each GET request that is answered with a redirect is stored as a visit, also if the server then stops after SIGTERM.")
	fitted := counted(visitsFitted, "visits", "The server drops no visit: the metric shortener_visits_dropped_total is 0.")
	redirected := uninterrupted(redirectsKept, "failed redirects", "While PostgreSQL does not answer, the server answers every GET request for a link in its cache with a redirect.")
	killed := []claim{
		once,
		counted(visitsKept, "lost visits", fmt.Sprintf("Even if a flush takes its whole time limit, a kill loses only visits that were answered in the last %v before the kill: the time between two flushes of visits to the database (VISITS_FLUSH, %v), "+
			"plus the time limit of the flush in progress (%v).", visitsFlush+flushLimit, visitsFlush, flushLimit)),
		timed(unflushed, "If flushes are fast, a kill loses only visits that were answered in the last 1.5 s before the kill: the time between two flushes of visits to the database (VISITS_FLUSH, 1 s), "+
			"plus half a second for the flush in progress."),
	}
	stopped := []claim{once, lasting, observed("exit status", "After SIGTERM, the server ends with status 0.")}
	const kills = "The server is killed with SIGKILL while clients follow links. Then it is started again. This is repeated. "
	const stops = "The server is stopped with SIGTERM while clients follow links. Then it is started again. This is repeated. "
	unflushedForLong := []experiment.Control{{Settings: []string{"VISITS_FLUSH=1m"}, Refutes: visitsKept}}
	return []row{
		{
			Name: "fault/visitkill", Title: "server killed under redirects, SQLite", Summary: kills + "The visits are in SQLite.",
			Run: inject(func(r *run) { r.embedded(); visitsKilled(r) }), Claims: killed, Controls: unflushedForLong,
		},
		{
			Name: "fault/visitkillb", Title: "server killed under redirects, PostgreSQL", Summary: kills + "The visits are in PostgreSQL.",
			Run: inject(func(r *run) { r.store(lab.Postgres(r).URL); visitsKilled(r) }), Claims: killed, Controls: unflushedForLong,
		},
		{
			Name: "fault/visitstop", Title: "server stopped under redirects, SQLite", Summary: stops + "The visits are in SQLite.",
			Run: inject(func(r *run) { r.embedded(); visitsStopped(r) }), Claims: stopped, Controls: without(visitsKept, "visit-final"),
		},
		{
			Name: "fault/visitstopb", Title: "server stopped under redirects, PostgreSQL", Summary: stops + "The visits are in PostgreSQL.",
			Run: inject(func(r *run) { r.store(lab.Postgres(r).URL); visitsStopped(r) }), Claims: stopped, Controls: without(visitsKept, "visit-final"),
		},
		{
			Name: "fault/visitreply", Title: "lost reply to a flush of visits",
			Summary: "At every second commit of visits, a proxy resets the connection between the server and PostgreSQL. " +
				"PostgreSQL's reply to the commit is lost, or cut off after a few bytes.",
			Run: inject(flushReplyLost), Claims: []claim{once, lasting, fitted},
			Controls: slices.Concat(without(visitsOnce, "visit-number"), without(visitsKept, "visit-repeat")),
		},
		{
			Name: "fault/visitaway", Title: "PostgreSQL unavailable under redirects",
			Summary: "PostgreSQL is killed with SIGKILL and restarted later, and then it is frozen for some time. " +
				"At scale 1, it does not answer for about a minute each time. Meanwhile clients follow links.",
			Run:      inject(visitsWait),
			Claims:   []claim{once, lasting, fitted, redirected, timed(visitsStored, "All visits are stored within 10 s after PostgreSQL is available again.")},
			Controls: []experiment.Control{{Without: []string{"visit-memory"}, Refutes: visitsFitted, AlsoRefutes: []string{visitsKept}}},
		},
	}
}

// visitsKilled kills the server while clients follow links. After each start of the server, the clients follow
// new links.
func visitsKilled(r *run) {
	server := r.server()
	for range max(3, r.Times(20)) {
		server.Start()
		v := r.visitors(server, 20)
		v.start()
		// The pause is longer than the period whose visits the kill may lose. So each round also has visits that must
		// survive. The kill happens at a random moment between two flushes.
		lab.Pause(r, visitsFlush+flushLimit+500*time.Millisecond+rand.N(visitsFlush)) //nolint:gosec // the random number need not be secret
		killed := time.Now()
		server.Kill()
		r.strike(1)
		v.stop()
		c := r.sawVisits(v, killed.Add(-visitsFlush-flushLimit))
		r.took(unflushed, visitsFlush+500*time.Millisecond, c.missing(killed))
	}
}

// visitsStopped stops the server with SIGTERM while clients follow links.
func visitsStopped(r *run) {
	server := r.server()
	for range max(3, r.Times(20)) {
		server.Start()
		v := r.visitors(server, 20)
		v.start()
		lab.Pause(r, 300*time.Millisecond+rand.N(2*visitsFlush)) //nolint:gosec // the random number need not be secret
		server.Signal(syscall.SIGTERM)
		r.strike(1)
		lab.Pause(r, 100*time.Millisecond) // meanwhile the clients still send requests
		v.stop()
		status := server.Exit(patient)
		r.saw("exit status", status == 0, "the server ended with status %d", status)
		r.sawVisits(v, time.Now())
	}
}

func flushReplyLost(r *run) {
	postgres := lab.Postgres(r)
	proxy := lab.Proxy(r, postgres.Addr)
	r.store(postgres.URL, "VISITS_FLUSH=100ms")
	server := r.started("DATABASE_URL=" + strings.Replace(postgres.URL, postgres.Addr, proxy.Addr, 1))
	v := r.visitors(server, 20)
	commits := firstCommitAfter(lab.StatementWith("INSERT INTO visits AS v"))
	for _, keep := range []int{0, 5} {
		before := proxy.Lost()
		proxy.Lose(2, keep, commits)
		v.start()
		lab.Pause(r, 2*time.Second+r.Lasting(8*time.Second))
		v.stop()
		if proxy.Lost() == before {
			r.Fatalf("the proxy cut off no reply after %d bytes, so the fault row proves nothing", keep)
		}
	}
	proxy.Lose(1, 0, nil)
	r.strike(proxy.Lost())
	r.sawNoneDropped(server)
	server.Stop()
	r.sawVisits(v, time.Now())
}

// firstCommitAfter returns a function that matches the first commit after each request for which statement returns true.
// The requests of other connections may come between the statement and its commit, so a commit of another transaction
// can match.
func firstCommitAfter(statement func(request []byte) bool) func(request []byte) bool {
	executed := false
	return func(request []byte) bool {
		if statement(request) {
			executed = true
			return false
		}
		matches := executed && bytes.Contains(request, []byte("commit\x00"))
		executed = executed && !matches
		return matches
	}
}

// visitsWait kills and restarts PostgreSQL, and then freezes it for a while, while clients follow links.
func visitsWait(r *run) {
	postgres := lab.Postgres(r)
	r.store(postgres.URL)
	server := r.started()
	v := r.visitors(server, 200)
	for _, fault := range []struct{ begin, end func() }{{postgres.Kill, postgres.Restart}, {postgres.Freeze, postgres.Thaw}} {
		v.start()
		lab.Pause(r, 2*time.Second) // after this pause, all links are in the cache
		fault.begin()
		lab.Pause(r, flushLimit+visitsFlush+time.Second+r.Lasting(50*time.Second))
		if answer, _, right := refused(r, server); !right {
			r.Fatalf("a creation was not refused while PostgreSQL did not answer, so the fault row proves nothing: %s", answer)
		}
		r.strike(1)
		fault.end()
		v.stop()
		r.sawStored(v, 10*time.Second)
	}
	r.figure(redirectsKept, 0, float64(v.figures.Failed()), "%d of %d requests were not answered with a redirect", v.figures.Failed(), v.figures.Sent)
	r.sawNoneDropped(server)
	server.Stop()
	r.sawVisits(v, time.Now())
}

// sawStored records how long it takes until the database has all visits. It gives up a second after the limit.
func (r *run) sawStored(v *visitors, limit time.Duration) {
	began := time.Now()
	err := lab.Until(r.Context(), 100*time.Millisecond, limit+time.Second, func(ctx context.Context) (bool, error) {
		stored, err := lab.CountVisits(ctx, r.links)
		return err == nil && compareVisits(v.links, stored, time.Now()).lost == 0, err
	})
	r.took(visitsStored, limit, time.Since(began))
	if err != nil {
		r.Logf("the visits are not stored after %v: %v", limit, err)
	}
}

// sawNoneDropped records the number of dropped visits.
func (r *run) sawNoneDropped(server *lab.Program) {
	dropped := server.Counter("shortener_visits_dropped_total")
	r.figure(visitsFitted, 0, dropped, "the server dropped %v visits", dropped)
}

// sawVisits compares the visits in the database with the redirects. If a request was answered with a redirect before the
// time due, its visit must be stored.
func (r *run) sawVisits(v *visitors, due time.Time) comparison {
	stored, err := lab.CountVisits(r.Context(), r.links)
	r.Must(err)
	c := compareVisits(v.links, stored, due)
	if c.answered == 0 {
		r.Fatalf("no request was answered with a redirect, so the fault row proves nothing")
	}
	r.record.Visits.add(c.visitTotals)
	why := fmt.Sprintf("%d requests were answered with a redirect, %d requests have an unknown outcome, and %d visits are stored", c.answered, c.unknown, c.stored)
	r.figure(visitsOnce, 0, float64(c.twice), "%d stored visits are surplus; %s", c.twice, why)
	r.figure(visitsKept, 0, float64(c.lost), "%d visits are missing, apart from those that the fault may lose; %s", c.lost, why)
	return c
}
