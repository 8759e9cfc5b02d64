package fault

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
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
			name: "1", title: "server killed, SQLite",
			injected: "The server is killed with SIGKILL under load, again and again, every fourth time in the middle of its start.",
			run:      killEmbedded, claims: killed, controls: without(kept, "commit"),
		},
		{
			name: "1b", title: "server killed, PostgreSQL and Redis", change: true,
			injected: "As row 1, with PostgreSQL, a pool in Redis, and the worker in the server.",
			run:      killPostgres, claims: killed, controls: without(kept, "commit"),
		},
		{
			name: "2", title: "server stopped in order, SQLite",
			injected: "The server is stopped with SIGTERM under load and with half-sent requests.",
			run:      stopEmbedded, claims: stopped, controls: without(returned, "handback"),
		},
		{
			name: "2b", title: "server stopped in order, PostgreSQL and Redis",
			injected: "As row 2, with PostgreSQL, a pool in Redis, and the worker in the server.",
			run:      stopPostgres, claims: stopped, controls: without(returned, "handback"),
		},
	}
}

// killBatch bounds a local batch in row 1, in keys.
const killBatch = 500

func killEmbedded(r *run) { killRepeatedly(r, embedded(r), 200) }
func killPostgres(r *run) { killRepeatedly(r, ownServers(r), 50) }

// embedded are settings for an SQLite file.
func embedded(r *run) []string {
	return []string{"DATABASE_URL=sqlite:" + filepath.Join(r.TempDir(), "shortener.db")}
}

// ownServers are settings for a PostgreSQL and a Redis.
func ownServers(r *run) []string {
	return []string{"DATABASE_URL=" + lab.Postgres(r).URL, "REDIS_URL=" + lab.DurableRedis(r).URL}
}

func killRepeatedly(r *run, settings []string, atFullScale int) {
	kills := max(20, r.Times(atFullScale)) // not every kill comes while a commit is under way
	server := lab.Server(r, append(settings, fmt.Sprintf("KGS_BATCH_MAX=%d", killBatch))...)
	load := lab.Traffic(r, server)
	load.Start(500)
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
	r.audit(server)
	r.stop(load)
	server.Restart()
	r.check(server, load)
	server.Stop()
	a := r.audit(server)
	// The server is down: what is still in batches belongs to killed processes. A kill costs
	// the two batches that a server holds, and what was on its way from them to the store.
	lost, limit := a.InBatches+a.Lost(), int64(kills*3*killBatch)
	r.figure("cost of a kill", float64(limit), float64(lost), "%d kills cost %d keys, %d a kill: %d in batches of killed servers, abandoned: %s",
		kills, lost, lost/int64(kills), a.InBatches, reasons(a.Abandoned))
}

func stopEmbedded(r *run) { stopInOrder(r, embedded(r)) }
func stopPostgres(r *run) { stopInOrder(r, ownServers(r)) }

func stopInOrder(r *run, settings []string) {
	const limit = 10 * time.Second
	server := lab.Server(r, settings...)
	server.Start()
	load := lab.Traffic(r, server)
	load.Start(200)
	load.AwaitMore(int64(r.Times(2000)))
	halves := make([]*halfSent, 8)
	for i := range halves {
		halves[i] = sendHalf(r, server)
	}

	underWay, signalled := load.Entries(), time.Now()
	server.Signal(syscall.SIGTERM)
	r.strike(1)
	refusing := lab.Happens(r, patient, func() bool {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(server.Public, "http://"), time.Second) //nolint:noctx // it has a timeout
		if err != nil {
			return true
		}
		_ = conn.Close() // nothing was sent
		return false
	})
	r.stop(load)
	answered := 0
	for _, h := range halves {
		if h.sendRest() == http.StatusCreated {
			answered++
		}
	}
	r.saw("half-sent requests", answered == len(halves), "%d of %d requests were answered with 201", answered, len(halves))
	status := server.Exit(patient)
	r.saw("exit status", status == 0 && refusing, "status %d; new connections were refused: %t", status, refusing)
	r.took("stop", limit, time.Since(signalled))
	sawAnswers(r, underWay, load.Entries(), signalled)
	// The next sweep abandons the keys in the batches of a server that is not there any more.
	a := r.audit(server)
	r.saw(abandoned, len(a.Abandoned) == 0, "abandoned: %s", reasons(a.Abandoned))
	r.figure(returned, 0, float64(a.InBatches), "%d keys are left in batches", a.InBatches)
	server.Start()
	r.check(server, load)
	server.Stop()
	r.audit(server)
}

// onItsWay is how long a request may be between the client's send and the server's
// read. A request that the server has not read when it closes the connection is lost.
const onItsWay = 250 * time.Millisecond

// sawAnswers looks for creations that were under way at SIGTERM and were not acknowledged.
func sawAnswers(r *run, then, now []loadtest.Entry, signalled time.Time) {
	underWay := 0
	for n, e := range then {
		if e.State != loadtest.Intended || !e.At.Before(signalled.Add(-onItsWay)) {
			continue
		}
		underWay++
		if now[n].State != loadtest.Acknowledged {
			r.saw("requests under way", false, "creation %d, sent %v before SIGTERM: %s: %s", n, signalled.Sub(e.At), now[n].State, now[n].Detail)
		}
	}
	r.saw("requests under way", true, "%d creations were under way", underWay)
}

// halfSent is a creation whose body the server waits for.
type halfSent struct {
	body   *io.PipeWriter
	answer chan int // the status, 0 without an answer
}

// sendHalf sends the head of a creation and returns when the server has asked for the body
// (RFC 9110, section 10.1.1), of which it gives the client one half.
func sendHalf(r *run, s *lab.Program) *halfSent {
	body, in := io.Pipe()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, s.Public+"/shorten", body)
	r.Must(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue")
	req.ContentLength = int64(len(halfBody))
	transport := &http.Transport{ExpectContinueTimeout: patient, DisableKeepAlives: true}
	h := &halfSent{body: in, answer: make(chan int, 1)}
	go func() {
		res, err := transport.RoundTrip(req)
		if err != nil {
			h.answer <- 0
			return
		}
		_ = res.Body.Close() // nothing of it is read
		h.answer <- res.StatusCode
	}()
	_, err = io.WriteString(in, halfBody[:len(halfBody)/2]) // the transport reads it when it has the 100
	r.Must(err)
	return h
}

const halfBody = `{"url":"https://example.com/half"}`

// sendRest completes the creation and returns the status of the answer, 0 without one.
func (h *halfSent) sendRest() int {
	if _, err := io.WriteString(h.body, halfBody[len(halfBody)/2:]); err != nil {
		return 0
	}
	return <-h.answer
}
