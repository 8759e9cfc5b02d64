package fault

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

// visited is a link with the observations of the clients that followed it.
type visited struct {
	code     string
	answered []time.Time // the time of each redirect
	unknown  int64       // requests without a complete answer, which may count as visits
}

// visitors follow the links of a server at a constant rate. Only the goroutine of the run may call the methods start and
// stop. The run may read the fields only while no load runs.
type visitors struct {
	r       *run
	on      *lab.Program
	figures loadtest.Figures // requests of all loads that have ended
	next    atomic.Int64

	mu    sync.Mutex // protects the elements of links while a load runs
	links []visited

	end func() // ends the load; nil while no load runs
}

// visitors creates n links on a server, and returns visitors that can follow these links.
func (r *run) visitors(server *lab.Program, n int) *visitors {
	v := &visitors{r: r, on: server}
	for range n {
		o := server.Client.Create(r.Context(), "https://example.com/visited")
		if o.State != loadtest.Acknowledged {
			r.Fatalf("a creation failed: %s %s", o.State, o.Detail)
		}
		v.links = append(v.links, visited{code: o.Code})
	}
	r.Cleanup(v.stop)
	return v
}

// start begins to follow the links.
func (v *visitors) start() {
	recorder := loadtest.NewRecorder()
	stop := v.r.beside(func(ctx context.Context) {
		loadtest.Pace(ctx, loadtest.Schedule{Rate: visitRate}, 0, recorder, v.follow)
	})
	v.end = func() {
		stop()
		v.figures = v.figures.Plus(recorder.Figures())
	}
}

// stop ends the load and waits for its last answer. It does nothing if no load runs.
func (v *visitors) stop() {
	if v.end != nil {
		v.end()
		v.end = nil
	}
}

// follow follows one link. A request that fails counts as unknown, even if its last attempt did not reach the
// server. The HTTP transport may have sent the request before on another connection, and the server may have
// counted that attempt.
func (v *visitors) follow(ctx context.Context) loadtest.State {
	link := &v.links[v.next.Add(1)%int64(len(v.links))]
	status, _, err := v.on.Client.Follow(ctx, link.code)
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err != nil:
		link.unknown++
		return loadtest.Unknown
	case status == http.StatusFound:
		link.answered = append(link.answered, now)
		return loadtest.Acknowledged
	}
	return loadtest.Refused
}

// visitTotals are figures of several links.
type visitTotals struct {
	answered int64 // redirects
	unknown  int64 // requests without a complete answer
	stored   int64 // visits in the database
	lost     int64 // visits that must be stored and are not
	twice    int64 // visits in the database that no request explains
}

func (t *visitTotals) add(o visitTotals) {
	t.answered += o.answered
	t.unknown += o.unknown
	t.stored += o.stored
	t.lost += o.lost
	t.twice += o.twice
}

// table returns the figures of the row with the given name and title.
func (t *visitTotals) table(name, title string, strikes int) report.Table {
	cells := []string{strings.TrimPrefix(name, "fault/"), title}
	for _, n := range []int64{int64(strikes), t.answered, t.unknown, t.stored, t.lost, t.twice} {
		cells = append(cells, fmt.Sprint(n))
	}
	return report.Table{
		Title:   "What happened",
		Columns: []string{"row", "fault", "injections", "redirects", "requests without an answer", "visits stored", "visits lost", "surplus visits"},
		Rows:    [][]string{cells},
	}
}

// comparison is the result of compareVisits.
type comparison struct {
	visitTotals

	oldest time.Time // the time of the oldest redirect whose visit may be missing; zero if no visit is missing
}

// missing returns the age of the oldest visit that may be missing, at the given time. It returns 0 if no visit is missing.
func (c *comparison) missing(now time.Time) time.Duration {
	if c.oldest.IsZero() {
		return 0
	}
	return now.Sub(c.oldest)
}

// compareVisits compares the observations of clients with the visits in the database, by code. The visit of every
// redirect that was answered before due must be stored. The server counts visits in the order of their times,
// except visits of the same moment. Therefore compareVisits assumes that the missing visits of a link are its
// last visits.
func compareVisits(links []visited, stored map[string]int64, due time.Time) (c comparison) {
	for i := range links {
		n, answered := stored[links[i].code], slices.SortedFunc(slices.Values(links[i].answered), time.Time.Compare)
		all := int64(len(answered))
		must, _ := slices.BinarySearchFunc(answered, due, time.Time.Compare)
		c.add(visitTotals{
			answered: all, unknown: links[i].unknown, stored: n,
			lost: max(0, int64(must)-n), twice: max(0, n-all-links[i].unknown),
		})
		if n < all && (c.oldest.IsZero() || answered[n].Before(c.oldest)) {
			c.oldest = answered[n]
		}
	}
	return c
}
