package fault

import (
	"fmt"
	"net/http"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

const (
	justCreated   = "just-created links redirect"
	deletedGone   = "deleted links are gone"
	deletionTime  = "time until a deleted link is gone"
	linksRedirect = "links redirect"

	// deletionLimit is the default of DATABASE_READ_MAX_LAG plus the time for which a server uses a link that it has read.
	deletionLimit = 2 * time.Second
	replicaDelay  = 10 * time.Second
)

// replicaRows returns the fault row in which replicas of PostgreSQL lag, hang and are killed.
func replicaRows() []row {
	return []row{{
		Name: "fault/20", Title: "replicas of PostgreSQL lag by 10 s, hang and are killed",
		Summary: "Servers look links up in two replicas, one of which applies each change 10 s late. " +
			"Then the other replica is frozen, and killed. At the end the primary is killed.",
		Run: inject(replicasFail),
		Claims: theLinks(
			counted(justCreated, "links", "A link redirects on a second server directly after its creation, although the only replica of the second server does not have the link yet."),
			counted(deletedGone, "links", "A deleted link is gone (410) on a second server within 4 s, although the only replica of the second server still has the link."),
			timed(deletionTime, "A deleted link is gone on a second server within 2 s."),
			counted(linksRedirect, "failed redirects", "Links that a replica has redirect while the replica hangs, while it is down, and while the primary is down."),
			noneFails("while replicas lag, hang or are down"),
		),
		Controls: append(without(justCreated, "replica-miss"), without(deletedGone, "replica-lag")...),
	}}
}

// replicated is a run with servers that use replicas.
type replicated struct {
	*run
	current *lab.Database // the replica without delay

	creating *lab.Program // uses both replicas
	tolerant *lab.Program // has only the late replica, and uses it because DATABASE_READ_MAX_LAG is 1m
	strict   *lab.Program // has only the late replica, and the default of DATABASE_READ_MAX_LAG
	fresh    *lab.Program // has only the current replica
}

func replicasFail(r *run) {
	r.onlyPostgres()
	r.settings = append(r.settings, "MISS_RATE=1000000", "MISS_BURST=1000000") // awaitReplicas requests unknown codes
	r.started().Stop()                                                         // creates the tables that the replicas begin with
	late := lab.Standby(r, r.postgres, manyConnections, fmt.Sprintf("recovery_min_apply_delay=%d", replicaDelay.Milliseconds()))
	current := lab.Standby(r, r.postgres, manyConnections)
	reads := "DATABASE_READ_URLS="
	c := &replicated{
		run: r, current: current, creating: r.started(reads + late.URL + "," + current.URL), strict: r.started(reads + late.URL),
		tolerant: r.started(reads+late.URL, "DATABASE_READ_MAX_LAG=1m"), fresh: r.started(reads + current.URL),
	}
	load := r.start(c.creating, 50)
	c.awaitReplicas(c.creating, c.tolerant, c.fresh)
	r.strike(1)
	c.followNewLinks()
	c.deleteLinks()
	c.loseReplica(load)
	r.serve(load)
	c.losePrimary(load)
	each([]*lab.Program{c.strict, c.fresh}, (*lab.Program).Stop)
	r.end(c.creating, c.tolerant)
}

// asked returns the number of look-ups for which a server has asked its replicas.
func asked(s *lab.Program) float64 { return s.Counter("shortener_replica_lookups_total") }

// awaitReplicas waits until each server asks a replica for links.
func (c *replicated) awaitReplicas(servers ...*lab.Program) {
	for _, s := range servers {
		before := asked(s)
		lab.Wait(c, patient, "the server asks a replica", func() bool {
			_, _, err := s.Client.Follow(c.Context(), "none00")
			c.Must(err)
			return asked(s) > before
		})
	}
}

// followNewLinks follows each link directly after its creation, on the server whose only replica lacks the link.
func (c *replicated) followNewLinks() {
	n, before, failed, example := c.Times(10_000), asked(c.tolerant), 0, ""
	for i := range n {
		url := fmt.Sprintf("https://example.com/new/%d", i)
		o := c.creating.Client.Create(c.Context(), url)
		if o.State != loadtest.Acknowledged {
			c.Fatalf("a creation failed: %s %s", o.State, o.Detail)
		}
		if problem := c.redirects(c.tolerant, o.Code, url); problem != "" {
			failed++
			example = "; for example " + problem
		}
	}
	if now := asked(c.tolerant); now-before < float64(n)/2 {
		c.Fatalf("the replica was asked for only %v of %d new links, so the fault row proves nothing", now-before, n)
	}
	c.figure(justCreated, 0, float64(failed), "%d of %d links did not redirect%s", failed, n, example)
}

// redirects follows a code on a server. It returns "" if the server redirects to url, and a description of the answer
// if it does not.
func (c *replicated) redirects(s *lab.Program, code, url string) (problem string) {
	status, location, err := s.Client.Follow(c.Context(), code)
	if err == nil && status == http.StatusFound && location == url {
		return ""
	}
	return fmt.Sprintf("GET /%s: status %d, Location %q, error %v", code, status, location, err)
}

// deleteLinks deletes links that the late replica has, and waits until the server strict answers that they are gone.
func (c *replicated) deleteLinks() {
	owner, codes, alive := c.ownerOf("owner", c.creating), []string(nil), 0
	for range max(3, c.Times(20)) {
		answer, err := owner.send(c.Context(), 0, http.MethodPost, "/shorten", `{"url":"https://example.com/deleted"}`)
		c.Must(err)
		link, err := linkIn(answer, http.StatusCreated)
		c.Must(err)
		codes = append(codes, link.Code)
	}
	lab.Pause(c, replicaDelay+time.Second)
	for _, code := range codes {
		answer, err := owner.send(c.Context(), 0, http.MethodDelete, "/api/links/"+code, "")
		c.Must(err)
		if answer.Status != http.StatusNoContent {
			c.Fatalf("DELETE of a link: status %d", answer.Status)
		}
		deleted := time.Now()
		if !lab.Happens(c, 2*deletionLimit, func() bool {
			status, _, err := c.strict.Client.Follow(c.Context(), code)
			return err == nil && status == http.StatusGone
		}) {
			alive++
		}
		c.took(deletionTime, deletionLimit, time.Since(deleted))
	}
	c.figure(deletedGone, 0, float64(alive), "%d of %d deleted links still redirect after %v", alive, len(codes), 2*deletionLimit)
}

// loseReplica freezes and kills the current replica while links are created and followed.
func (c *replicated) loseReplica(load *lab.Load) {
	for _, fault := range []struct {
		name         string
		inject, mend func()
	}{
		{"frozen", c.current.Freeze, c.current.Thaw},
		{"down", c.current.Kill, c.current.Restart},
	} {
		links := acknowledged(load)
		fault.inject()
		c.strike(1)
		c.followAll(c.creating, links, "while a replica is "+fault.name)
		fault.mend()
		c.awaitReplicas(c.creating, c.fresh)
	}
}

// losePrimary kills the primary and follows links on a server that has not followed them before.
func (c *replicated) losePrimary(load *lab.Load) {
	links := acknowledged(load)
	lab.Pause(c, deletionLimit) // after this pause, the current replica has all links
	c.postgres.Kill()
	c.strike(1)
	c.followAll(c.fresh, links, "while the primary is down")
	c.postgres.Restart()
}

// followAll follows links for a while, beginning with the newest.
func (c *replicated) followAll(s *lab.Program, links []loadtest.Entry, when string) {
	failed, followed, example := 0, 0, ""
	for end := time.Now().Add(3*time.Second + c.Lasting(10*time.Second)); time.Now().Before(end) && followed < len(links); followed++ {
		link := links[len(links)-1-followed]
		if problem := c.redirects(s, link.Code, link.URL); problem != "" {
			failed++
			example = "; for example " + problem
		}
	}
	c.figure(linksRedirect, 0, float64(failed), "%d of %d links did not redirect %s%s", failed, followed, when, example)
}
