package fault

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"keypool/loadtest/lab"
)

const (
	fixedKept   = "fixed links unchanged"
	staysGone   = "deleted links stay deleted"
	freshChange = "time until every server uses a change"

	edited    = 8               // links that are edited at the same time
	perLink   = 20              // changes of the URL before a link is deleted
	generous  = 3 * time.Second // the time after which a redirect to an older state is an error
	gone      = ""              // the URL of a deleted link
	fixedPart = 4               // on average, one of fixedPart links is fixed
)

// editRows returns the fault rows in which links change while a server or the database is killed.
func editRows() []row {
	claims := []claim{
		counted(kept, "lost or unread links", "Every link of an acknowledged creation can be read through every server, also after a restart."),
		counted(right, "wrong answers", "An editable link leads to the URL of its last acknowledged change, or to the URL of a later change that was not acknowledged. "+
			"The API never answers with an older URL. While the database answers, no redirect leads to an older URL more than 3 s after the answer to a change."),
		counted(fixedKept, "changed links", "The URL of a fixed link never changes: each request to change it is refused."),
		counted(staysGone, "answers with a URL", "After a deletion was acknowledged, the API always answers that the link is deleted. "+
			"While the database answers, no redirect leads to the URL of the link more than 3 s after the acknowledgement."),
		timed(freshChange, "While the database answers, every server uses an acknowledged change within 1 s. This is the documented time. The claims about wrong answers allow 3 s."),
	}
	const how = "Two servers share the database. For each link, one client changes the URL and then deletes the link, and another client changes the title. " +
		"Other clients read all links through both servers. "
	controls := slices.Concat(without(right, "version"), without(freshChange, "freshness"))
	return []row{
		{
			Name: "fault/edit", Title: "servers killed while links are edited, SQLite",
			Summary: how + "The servers are killed with SIGKILL in turn and started again.",
			Run:     inject(func(r *run) { r.embedded(); editLinks(r) }), Claims: claims, Controls: controls,
		},
		{
			Name: "fault/editb", Title: "servers and PostgreSQL killed while links are edited",
			Summary: how + "The servers and PostgreSQL are killed with SIGKILL in turn and started again.",
			Run:     inject(func(r *run) { r.onlyPostgres(); editLinks(r) }), Claims: claims, Controls: controls,
		},
	}
}

// editLinks kills the servers and the database while clients edit and read links.
func editLinks(r *run) {
	servers := r.twoServers()
	e := &editing{owner: r.ownerOf("editor", servers...), wrong: make(map[string][]string)}
	back := func() { e.availableSince.Store(new(time.Now())) }
	back()
	var stops []func()
	for range edited {
		stops = append(stops, r.beside(e.run))
	}
	for i := range servers {
		stops = append(stops, r.beside(func(ctx context.Context) { e.read(ctx, i) }))
	}
	for n := range max(6, r.Times(60)) {
		before := e.changes()
		lab.Wait(r, patient, "links are changed", func() bool { return e.changes() > before })
		lab.Pause(r, rand.N(2*time.Second)) //nolint:gosec // the random number need not be secret
		r.strikeInTurn(n, servers, func() { e.availableSince.Store(nil) }, back)
	}
	// A redirect to an older state is an error only if the change is older than the limit generous. Therefore the readers
	// continue for this time, and then for as long as a server may take to use a change (freshness).
	lab.Pause(r, generous+freshness)
	for _, stop := range stops {
		stop()
	}
	e.end(r, servers)
}

// end reads all links through every server, before and after a restart, and records all observations.
func (e *editing) end(r *run, servers []*lab.Program) {
	lab.Pause(r, freshness)
	links, unread := e.all(), 0
	for range 2 {
		for i := range servers {
			for _, h := range links {
				// On a busy machine, a server may refuse a look-up. Like loadtest.Checker, the run repeats the requests
				// for 10 s.
				if !lab.Happens(r, 10*time.Second, func() bool { return e.follow(r.Context(), i, h) && e.find(r.Context(), h) }) {
					unread++
				}
			}
		}
		each(servers, (*lab.Program).Restart)
	}
	if unread > 0 {
		e.contradicts(kept, "%d reads had no answer", unread)
	}
	each(servers, (*lab.Program).Stop)
	r.record.Created = e.figures
	for _, claim := range []string{kept, right, fixedKept, staysGone} {
		against := e.wrong[claim]
		r.figure(claim, 0, float64(len(against)), "%d observations contradict the claim; the clients requested %d changes of %d links%s",
			len(against), e.figures.Sent, len(links), firstOf(against))
	}
	r.took(freshChange, freshness, e.latest)
}
