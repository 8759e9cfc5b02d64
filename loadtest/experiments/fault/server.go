package fault

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/textproto"
	"strings"
	"syscall"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

// serverRows are the faults of a server process.
func serverRows() []row {
	killed := theLinks(counted("cost of a kill", "keys", fmt.Sprintf("A kill costs at most three local batches of %d keys.", killBatch)))
	stopped := theLinks(
		counted("half-sent requests", "requests", "A request that the server had begun to read at SIGTERM is answered with 201."),
		observed("requests under way", "Every creation that the server had read at SIGTERM is acknowledged."),
		observed("exit status", "The server refuses new connections after SIGTERM and ends with status 0."),
		timed("stop", "An orderly stop takes at most 10 s."),
		observed(abandoned, "An orderly stop abandons no key."),
		counted(returned, "keys", "An orderly stop leaves no key in a batch."),
	)
	return []row{
		{
			Name: "fault/1", Title: "server killed, SQLite",
			Summary: "The server is killed with SIGKILL under load, again and again, every fourth time in the middle of its start.",
			Run:     inject(func(r *run) { r.embedded(); killRepeatedly(r, 200) }), Claims: killed, Controls: without(kept, "commit"),
		},
		{
			Name: "fault/1b", Title: "server killed, PostgreSQL and Redis", Suites: changeToo(),
			Summary: "As row 1, with PostgreSQL, a pool in Redis, and the worker in the server.",
			Run:     inject(func(r *run) { r.databases(); killRepeatedly(r, 50) }), Claims: killed, Controls: without(kept, "commit"),
		},
		{
			Name: "fault/2", Title: "server stopped in order, SQLite",
			Summary: "The server is stopped with SIGTERM under load and with half-sent requests.",
			Run:     inject(func(r *run) { r.embedded(); stopInOrder(r) }), Claims: stopped, Controls: without(returned, "handback"),
		},
		{
			Name: "fault/2b", Title: "server stopped in order, PostgreSQL and Redis",
			Summary: "As row 2, with PostgreSQL, a pool in Redis, and the worker in the server.",
			Run:     inject(func(r *run) { r.databases(); stopInOrder(r) }), Claims: stopped, Controls: without(returned, "handback"),
		},
	}
}

// killBatch bounds a local batch in row 1, in keys.
const killBatch = 500

func killRepeatedly(r *run, atFullScale int) {
	kills := max(20, r.Times(atFullScale)) // not every kill comes while a commit is under way
	server := r.server(fmt.Sprintf("KGS_BATCH_MAX=%d", killBatch))
	load := r.start(server, 500)
	for n := range kills {
		// Each time at another point, and every fourth time in the middle of the start.
		if n%4 == 3 {
			server.Launch()
			lab.Pause(r, rand.N(100*time.Millisecond)) //nolint:gosec // nothing secret
		} else {
			server.Start()
			load.AwaitMore(1 + rand.Int64N(200)) //nolint:gosec // nothing secret
		}
		server.Kill()
		r.strike(1)
	}
	server.Start()
	load.AwaitMore(1)
	r.audit(server) // under load
	a := r.end(server)
	// The server is down: what is still in batches belongs to killed processes. A kill costs
	// the two batches that a server holds, and what was on its way from them to the store.
	lost, limit := a.InBatches+a.Lost(), int64(kills*3*killBatch)
	r.figure("cost of a kill", float64(limit), float64(lost), "%d kills cost %d keys, %d a kill: %d in batches of killed servers, abandoned: %s",
		kills, lost, lost/int64(kills), a.InBatches, reasons(a.Abandoned))
}

func stopInOrder(r *run) {
	const halves, limit = 8, 10 * time.Second
	server := r.started()
	load := r.start(server, 200)
	load.AwaitMore(int64(r.Times(2000)))
	var rests []func() string
	for range halves {
		rests = append(rests, sendHalf(r, server))
	}

	underWay, signalled := load.Entries(), time.Now()
	server.Signal(syscall.SIGTERM)
	r.strike(1)
	refusing := lab.Happens(r, patient, func() bool {
		conn, err := dial(server)
		if err != nil {
			return true
		}
		_ = conn.Close() // nothing was sent
		return false
	})
	r.stop(load)
	failed := 0
	for _, rest := range rests {
		if rest() != "HTTP/1.1 201 Created" {
			failed++
		}
	}
	r.figure("half-sent requests", 0, float64(failed), "%d of %d requests were not answered with 201", failed, halves)
	status := server.Exit(patient)
	r.saw("exit status", status == 0 && refusing, "status %d; new connections were refused: %t", status, refusing)
	r.took("stop", limit, time.Since(signalled))
	sawAnswers(r, underWay, load.Entries(), signalled)
	// The next sweep abandons the keys in the batches of a server that is not there any more.
	a := r.audit(server)
	r.sawAbandoned(a, 0)
	r.figure(returned, 0, float64(a.InBatches), "%d keys are left in batches", a.InBatches)
	r.end(server)
}

// onItsWay is how long a request may be between the client's send and the server's
// read. A request that the server has not read when it closes the connection is lost.
const onItsWay = 250 * time.Millisecond

// sawAnswers looks for creations that were under way at SIGTERM and were not acknowledged.
func sawAnswers(r *run, then, now []loadtest.Entry, signalled time.Time) {
	underWay := 0
	for n, e := range then {
		if e.State == loadtest.Intended && e.At.Before(signalled.Add(-onItsWay)) {
			underWay++
			r.saw("requests under way", now[n].State == loadtest.Acknowledged,
				"creation %d, sent %v before SIGTERM: %s: %s", n, signalled.Sub(e.At), now[n].State, now[n].Detail)
		}
	}
	r.saw("requests under way", true, "%d creations were under way", underWay)
}

// dial opens a connection to a server.
func dial(s *lab.Program) (net.Conn, error) {
	return net.DialTimeout("tcp", strings.TrimPrefix(s.Public, "http://"), time.Second) //nolint:noctx // it has a timeout
}

// sendHalf sends the head of a creation and one half of its body, when the server has asked for the
// body (RFC 9110, section 10.1.1). rest sends the other half and returns the status line of the
// answer, "" without one.
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
		r.Fatalf("the server answers the head of a creation with %q", line)
	}
	_, err = answer.ReadLine() // which is empty
	r.Must(err)
	_, err = io.WriteString(conn, body[:len(body)/2])
	r.Must(err)
	return func() string {
		_, _ = io.WriteString(conn, body[len(body)/2:]) // without it there is no answer
		line, _ := answer.ReadLine()                    // "" with an error
		return line
	}
}
