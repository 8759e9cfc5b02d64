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
	linksAnswered = "links are available"

	// deletionLimit is the default of DATABASE_READ_MAX_LAG (1 s) plus the time for which a server uses a link that it has
	// read (0.9 s), rounded up to 2 s.
	deletionLimit = 2 * time.Second
	replicaDelay  = 10 * time.Second
)

// replicaRows returns the fault row in which replicas of PostgreSQL lag, hang and are killed.
func replicaRows() []row {
	return []row{{
		Name: "fault/20", Title: "replicas of PostgreSQL lag by 10 s, hang and are killed", Alone: true,
		Summary: "PostgreSQL has two replicas, and one of them applies each change 10 s late. One server looks links up in both replicas. " +
			"Each other server looks links up in one of the replicas. The replica without the delay is frozen and, after a recovery, killed. At the end the primary is killed.",
		Run: inject(replicasFail),
		Claims: theLinks(
			counted(justCreated, "links", "A link redirects directly after its creation, even on a server whose only replica does not have the link yet."),
			counted(deletedGone, "links", "A deleted link is gone (status 410), even on a server whose only replica still has the link. The run waits at most 4 s for each deleted link."),
			timed(deletionTime, "On a server whose only replica still has a deleted link, the link is gone within 2 s after the answer to the deletion. The limit is the default of DATABASE_READ_MAX_LAG (1 s) plus the time for which a server uses a link that it has read (0.9 s), rounded up."),
			counted(linksRedirect, "wrong answers", "While a replica hangs, while a replica is down, and while the primary is down, no link leads to a wrong URL, and no link is answered as if it did not exist."),
			uninterrupted(linksAnswered, "failed redirects", "While replicas lag, hang or are down, and while the primary is down, the servers redirect for every link: no answer is missing, and none has a status such as 503."),
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
	n, before, answers := c.Times(10_000), asked(c.tolerant), followed{}
	for i := range n {
		url := fmt.Sprintf("https://example.com/new/%d", i)
		c.follow(&answers, c.tolerant, c.link(c.creating, url), url)
	}
	if now := asked(c.tolerant); now-before < float64(n)/2 {
		c.Fatalf("the replica was asked for only %v of %d new links, so the fault row proves nothing", now-before, n)
	}
	c.judge(&answers, justCreated, "directly after their creation")
}

// followed counts the answers to requests for links.
type followed struct {
	requests, wrong, failed  int
	wrongAnswer, failureText string // describe the last wrong answer and the last failure
}

// follow requests a link and counts the answer. The answer must be a redirect to url.
func (c *replicated) follow(f *followed, s *lab.Program, code, url string) {
	status, location, err := s.Client.Follow(c.Context(), code)
	f.requests++
	answer := fmt.Sprintf("request %d: %s", f.requests, answerTo(code, err, fmt.Sprintf("status %d and Location %q", status, location)))
	switch {
	case err == nil && status == http.StatusFound && location == url:
	case err != nil || status >= http.StatusInternalServerError:
		f.failed++
		f.failureText = answer
	default:
		f.wrong++
		f.wrongAnswer = answer
	}
}

// judge records the wrong answers for the given claim, and the failed answers for the claim linksAnswered.
func (c *replicated) judge(f *followed, claim, when string) {
	c.figure(claim, 0, float64(f.wrong), "%d of %d answers were wrong %s%s", f.wrong, f.requests, when, example(f.wrongAnswer))
	c.figure(linksAnswered, 0, float64(f.failed), "%d of %d redirects failed %s%s", f.failed, f.requests, when, example(f.failureText))
}

// deleteLinks deletes links that the late replica has, and waits until the server c.strict answers that they are gone.
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
	c.figure(deletedGone, 0, float64(alive), "%d of %d deleted links were not gone within %v after their deletion", alive, len(codes), 2*deletionLimit)
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
		c.followAll(c.creating, links, "while a replica was "+fault.name)
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
	c.followAll(c.fresh, links, "while the primary was down")
	c.postgres.Restart()
}

// followAll follows links for a while, beginning with the newest.
func (c *replicated) followAll(s *lab.Program, links []loadtest.Entry, when string) {
	var answers followed
	for end := time.Now().Add(3*time.Second + c.Lasting(10*time.Second)); time.Now().Before(end) && answers.requests < len(links); {
		link := links[len(links)-1-answers.requests]
		c.follow(&answers, s, link.Code, link.URL)
	}
	c.judge(&answers, linksRedirect, when)
}
