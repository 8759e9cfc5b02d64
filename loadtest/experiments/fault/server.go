package fault

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/textproto"
	"slices"
	"strings"
	"syscall"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

// serverRows returns the fault rows in which a server process ends.
func serverRows() []row {
	killed := theLinks(counted("keys lost per kill", "keys", fmt.Sprintf("On average, each kill of the server costs at most %d keys: three batches of %d keys.", 3*killBatch, killBatch)))
	stopped := theLinks(
		counted("half-sent requests answered", "requests without 201", "If the server had begun to read a request when it received SIGTERM, the server answers the request with 201."),
		observed(inProgress, "If the server had read the request of a creation when it received SIGTERM, the answer is 201, or 503 with Retry-After."),
		uninterrupted(progressKept, "creations", fmt.Sprintf("If the server was processing a creation when it received SIGTERM, and the creation is less than %v old when the server can commit again, the server acknowledges it.", refusableAge)),
		observed("exit status", "After SIGTERM, the server refuses new connections and ends with status 0."),
		timed("stop time", "The server ends within 10 s after SIGTERM."),
		observed(abandoned, "A server that stops after SIGTERM abandons no key."),
		counted(returned, "keys in batches", "A server that stops after SIGTERM returns its unused keys: no key stays in one of its batches."),
	)
	return []row{
		{
			Name: "fault/1", Title: "server killed, SQLite",
			Summary: "The server is repeatedly killed with SIGKILL under load. Every fourth kill happens while the server starts.",
			Run:     inject(func(r *run) { r.embedded(); killRepeatedly(r, 200) }), Claims: killed, Controls: without(kept, "commit"),
		},
		{
			Name: "fault/1b", Title: "server killed, PostgreSQL and Redis", Suites: changeToo(),
			Summary: "The server is repeatedly killed with SIGKILL under load. Every fourth kill happens while the server starts. " +
				"The links are in PostgreSQL, the pool is in Redis, and the server also runs the worker.",
			Run: inject(func(r *run) { r.databases(); killRepeatedly(r, 50) }), Claims: killed, Controls: without(kept, "commit"),
		},
		{
			Name: "fault/2", Title: "server stopped with SIGTERM, SQLite",
			Summary: "The server is stopped with SIGTERM under load. At this moment, commits of links are delayed, and some clients have sent only the first half of a request.",
			Run:     inject(func(r *run) { r.embedded(); stopUnderLoad(r) }), Claims: stopped, Controls: without(returned, "handback"),
		},
		{
			Name: "fault/2b", Title: "server stopped with SIGTERM, PostgreSQL and Redis",
			Summary: "The server is stopped with SIGTERM under load. At this moment, commits of links are delayed, and some clients have sent only the first half of a request. " +
				"The links are in PostgreSQL, the pool is in Redis, and the server also runs the worker.",
			Run: inject(func(r *run) { r.databases(); stopUnderLoad(r) }), Claims: stopped, Controls: without(returned, "handback"),
		},
	}
}

// The names of the claims about creations that a server processes when it receives SIGTERM.
const (
	inProgress   = "requests in progress answered"
	progressKept = "requests in progress acknowledged"
)

// killBatch is the greatest number of keys in a local batch in the rows 1 and 1b.
const killBatch = 500

// killRepeatedly kills the server under load and starts it again, several times. The parameter atFullScale is the
// number of kills at scale 1.
func killRepeatedly(r *run, atFullScale int) {
	kills := max(20, r.Times(atFullScale)) // at least 20, because only some kills interrupt a commit
	server := r.server(fmt.Sprintf("KGS_BATCH_MAX=%d", killBatch))
	load := r.start(server, 500)
	for n := range kills {
		// Each kill happens after a random time. Every fourth kill happens while the server starts.
		if n%4 == 3 {
			server.Launch()
			lab.Pause(r, rand.N(100*time.Millisecond)) //nolint:gosec // the random number need not be secret
		} else {
			server.Start()
			load.AwaitMore(1 + rand.Int64N(200)) //nolint:gosec // the random number need not be secret
		}
		server.Kill()
		r.strike(1)
	}
	server.Start()
	load.AwaitMore(1)
	r.audit(server) // this audit runs under load
	a := r.end(server)
	// The server has stopped, so keys that are still in batches belong to killed processes. A kill costs the
	// keys in the two batches of the server, and the keys of creations in progress.
	lost, limit := a.InBatches+a.Lost(), int64(kills*3*killBatch)
	r.figure("keys lost per kill", float64(limit), float64(lost), "%d kills cost %d keys, which is %.1f keys per kill; "+
		"%d of these keys are in batches of killed servers; %s",
		kills, lost, float64(lost)/float64(kills), a.InBatches, abandonedKeys(a.Abandoned))
}

// stopUnderLoad stops a server with SIGTERM while it serves requests.
func stopUnderLoad(r *run) {
	const halves, limit = 8, 10 * time.Second
	server := r.started()
	load := r.start(server, 200)
	load.AwaitMore(int64(r.Times(2000)))
	var rests []func() string
	for range halves {
		rests = append(rests, sendHalf(r, server))
	}

	release := stallCommits(r)
	stalled := time.Now()
	var underWay []loadtest.Entry
	lab.Wait(r, patient, "creations wait for their commit", func() bool {
		underWay = load.Entries()
		return slices.ContainsFunc(underWay, func(e loadtest.Entry) bool {
			return e.State == loadtest.Intended && e.At.After(stalled) && time.Since(e.At) > maxTransit
		})
	})
	signalled := time.Now()
	server.Signal(syscall.SIGTERM)
	r.strike(1)
	release()
	released := time.Now()
	refusing := lab.Happens(r, patient, func() bool {
		conn, err := dial(server)
		if err != nil {
			return true
		}
		_ = conn.Close() // the connection was not used
		return false
	})
	r.stop(load)
	failed := 0
	for _, rest := range rests {
		if rest() != "HTTP/1.1 201 Created" {
			failed++
		}
	}
	r.figure("half-sent requests answered", 0, float64(failed), "%d of %d half-sent requests were answered with status 201", halves-failed, halves)
	status := server.Exit(patient)
	r.saw("exit status", status == 0, "the server ended with status %d", status)
	if !refusing {
		r.saw("exit status", false, "the server still accepted new connections %v after SIGTERM", patient)
	}
	r.took("stop time", limit, time.Since(signalled))
	sawAnswers(r, underWay, load.Entries(), signalled, released)
	// Keys in batches are a failure too, because a janitor later abandons the batches of a server that has ended.
	a := r.audit(server)
	r.sawAbandoned(a, 0)
	r.figure(returned, 0, float64(a.InBatches), "%d keys are still in batches of the stopped server", a.InBatches)
	r.end(server)
}

// stallCommits makes every commit of a link wait until release is called.
func stallCommits(r *run) (release func()) {
	if r.postgres != nil {
		r.postgres.Freeze()
		return r.postgres.Thaw
	}
	return lockFile(r, strings.TrimPrefix(r.links, "sqlite:"))
}

// maxTransit is the longest time from the moment at which a client sends a request until the server reads
// the request. A server that stops may close a connection before it has read the request. Therefore sawAnswers
// judges only requests that were sent at least maxTransit before SIGTERM.
const maxTransit = 250 * time.Millisecond

// refusableAge is the age from which a creation may be refused because the run delayed its commit. The server refuses a
// creation whose commit takes more than 0.9 s. A younger creation has more than 0.3 s left for its commit.
const refusableAge = 600 * time.Millisecond

// sawAnswers records how the server answered the creations that it was processing at SIGTERM. It compares the
// journal just before SIGTERM (then) with the journal after the end of the load (now). The parameter
// signalled is the time of SIGTERM. Until the time released, the run prevented all commits.
func sawAnswers(r *run, then, now []loadtest.Entry, signalled, released time.Time) {
	underWay, judged, failed := 0, 0, 0
	for n, e := range then {
		if e.State != loadtest.Intended || !e.At.Before(signalled.Add(-maxTransit)) {
			continue
		}
		underWay++
		o := now[n].Outcome
		r.saw(inProgress, o.State == loadtest.Acknowledged || unavailable(o),
			"creation %d was sent %v before SIGTERM; %s", n, signalled.Sub(e.At).Round(time.Millisecond), created(o))
		if released.Sub(e.At) < refusableAge {
			judged++
			if o.State != loadtest.Acknowledged {
				failed++
			}
		}
	}
	// The report shows the worst observation, so it shows this text only if the server answered no creation wrongly.
	r.saw(inProgress, underWay > 0, "the server answered all %d creations that it was processing when it received SIGTERM", underWay)
	if judged == 0 {
		r.observe(progressKept, 0, experiment.NotJudged("each of the %d creations was more than %v old when the server could commit again", underWay, refusableAge))
		return
	}
	r.figure(progressKept, 0, float64(failed), "%d of %d creations were not acknowledged; each of them was less than %v old when the server could commit again", failed, judged, refusableAge)
}

// dial opens a connection to a server.
func dial(s *lab.Program) (net.Conn, error) {
	return net.DialTimeout("tcp", strings.TrimPrefix(s.Public, "http://"), time.Second) //nolint:noctx // DialTimeout has a time limit
}

// sendHalf sends the header of a creation, waits until the server requests the body (RFC 9110, section
// 10.1.1), and sends the first half of the body. The function rest sends the second half and returns the
// status line of the answer, or "" if there is no answer.
func sendHalf(r *run, s *lab.Program) (rest func() string) {
	const body = `{"url":"https://example.com/half"}`
	conn, err := dial(s)
	r.Must(err)
	r.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	r.Must(conn.SetDeadline(time.Now().Add(patient)))
	answer := textproto.NewConn(conn)
	r.Must(answer.PrintfLine("POST /shorten HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n", len(body)))
	line, err := answer.ReadLine()
	r.Must(err)
	if line != "HTTP/1.1 100 Continue" {
		r.Fatalf("the server answers the header of a creation with %q, want 100 Continue", line)
	}
	_, err = answer.ReadLine() // the empty line after the status line
	r.Must(err)
	_, err = io.WriteString(conn, body[:len(body)/2])
	r.Must(err)
	return func() string {
		_, _ = io.WriteString(conn, body[len(body)/2:]) // if this fails, ReadLine fails too
		line, _ := answer.ReadLine()                    // line is "" if ReadLine fails
		return line
	}
}
