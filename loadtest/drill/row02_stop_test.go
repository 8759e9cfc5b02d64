//go:build drill

package drill

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

// The server on SQLite is stopped in order under load.
func stopEmbedded(d *drill) {
	database := filepath.Join(d.TempDir(), "shortener.db")
	orderlyStop(d, newServer(d, "DATABASE_URL=sqlite:"+database), sqliteCensus(database))
}

// The same with Postgres and a pool in Redis.
func stopPostgres(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	server := newServer(d, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL)
	orderlyStop(d, server, postgresCensus(postgres.URL))
}

func orderlyStop(d *drill, server *service, census loadtest.Census) {
	d.Helper()
	server.start()
	load := newTraffic(d, server)
	load.start(200)
	load.awaitMore(int64(d.times(2000)))
	halves := make([]*halfSent, 8)
	for i := range halves {
		halves[i] = sendHalf(d, server)
	}

	underWay, signalled := load.journal.Entries(), time.Now()
	server.signal(syscall.SIGTERM)
	d.struck(1)
	await(d, stopLimit, "new connections are refused", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(server.url, "http://"))
		if err != nil {
			return true
		}
		if err := conn.Close(); err != nil {
			d.Error(err)
		}
		return false
	})
	load.cancel() // nobody is there to connect to any more
	for _, h := range halves {
		if got := h.sendRest(); got != http.StatusCreated {
			d.Errorf("a request that was under way at SIGTERM was answered with %d, want 201", got)
		}
	}
	if status := server.exit(stopLimit); status != 0 {
		d.Errorf("exit status %d after SIGTERM", status)
	}
	d.note("stopped after %.1f s", time.Since(signalled).Seconds())
	load.stop()
	mustBeAnswered(d, load, underWay, signalled)
	// Keys in the batches of a server that is not there any more are abandoned by the next sweep.
	if got := server.audit(); len(got.Abandoned) > 0 || got.InBatches > 0 {
		d.Errorf("an orderly stop abandoned keys: %v, and left %d in batches", got.Abandoned, got.InBatches)
	}
	server.start()
	judge(d, server, census, load)
	server.stop()
	server.audit()
}

// mustBeAnswered fails for creations that the server had to end and did not: of the
// entries at the moment of SIGTERM those that were under way.
func mustBeAnswered(d *drill, load *traffic, then []loadtest.Entry, signalled time.Time) {
	d.Helper()
	now := load.journal.Entries()
	for n, e := range then {
		if e.State == loadtest.Intended && e.At.Before(signalled.Add(-onItsWay)) && now[n].State != loadtest.Acknowledged {
			d.Errorf("creation %d, sent %v before SIGTERM: %s: %s", n, signalled.Sub(e.At), now[n].State, now[n].Detail)
		}
	}
}

// onItsWay is how long a request may be between the client's send and the server's
// read; one that the server has not seen when it closes the connection is lost.
const onItsWay = 250 * time.Millisecond

// halfSent is a creation that the server has begun to read and waits for the rest of.
type halfSent struct {
	d    *drill
	conn net.Conn
	in   *bufio.Reader
	rest string
}

// sendHalf sends the head of a creation and half its body, and returns when the server
// has said that it wants the body (RFC 9110, section 10.1.1).
func sendHalf(d *drill, s *service) *halfSent {
	d.Helper()
	addr := strings.TrimPrefix(s.url, "http://")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = conn.Close() }) // closed already, or of no interest any more
	if err := conn.SetDeadline(time.Now().Add(patient)); err != nil {
		d.Fatal(err)
	}
	const body = `{"url":"https://example.com/half"}`
	h := &halfSent{d: d, conn: conn, in: bufio.NewReader(conn), rest: body[len(body)/2:]}
	h.write(fmt.Sprintf("POST /shorten HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", addr, len(body)))
	line, err := h.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		d.Fatalf("the server answers %q to the head of a request, error %v; want 100", line, err)
	}
	if _, err := h.in.ReadString('\n'); err != nil {
		d.Fatal(err)
	}
	h.write(body[:len(body)/2])
	return h
}

// sendRest completes the creation and returns the status of the answer.
func (h *halfSent) sendRest() int {
	h.d.Helper()
	h.write(h.rest)
	res, err := http.ReadResponse(h.in, nil)
	if err != nil {
		h.d.Errorf("no answer: %v", err)
		return 0
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		h.d.Errorf("the answer is cut off: %v", err)
	}
	return res.StatusCode
}

func (h *halfSent) write(text string) {
	h.d.Helper()
	if _, err := io.WriteString(h.conn, text); err != nil {
		h.d.Errorf("send: %v", err)
	}
}
