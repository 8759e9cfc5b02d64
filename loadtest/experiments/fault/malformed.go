package fault

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

const (
	slowEnds      = "slow requests end"
	littleMemory  = "memory during huge bodies"
	hugeRefused   = "huge bodies refused"
	neverInternal = "no internal error"
)

const (
	slowLimit  = 13 * time.Second // 3 s more than the time limit of the server for a request
	hugeBody   = 1 << 30          // bytes
	hugeSent   = 32 << 20         // bytes after which a client gives up
	hugeMemory = 64 << 20         // bytes by which the memory of the server may rise
)

// malformedRows returns the fault row in which a client sends slow, huge and malformed requests.
func malformedRows() []row {
	return []row{{
		Name: "fault/24", Title: "slow, huge and malformed requests",
		Summary: "A client sends headers and bodies at one byte per second. Then it begins to send bodies of 1 GiB, with and without their length. At the end it sends malformed requests.",
		Run:     inject(malformed),
		Controls: []experiment.Control{
			{Without: []string{"slow-client"}, Refutes: slowEnds},
			{Without: []string{"body-limit"}, Refutes: hugeRefused, AlsoRefutes: []string{littleMemory}},
		},
		Claims: theLinks(
			counted(slowEnds, "open connections", "If a request has not arrived completely within 13 s, the server closes the connection."),
			counted(hugeRefused, "bodies", "Before a client has sent 32 MiB of a body of 1 GiB, the server closes the connection."),
			counted(littleMemory, "bytes", "Huge bodies do not raise the memory of the server by more than 64 MiB."),
			counted(neverInternal, "answers", "The server answers no malformed request with success, a redirect or status 500, and logs no panic."),
			observed(stillServes, "The server keeps running."),
			noneFails("for another client, which creates links at the same time"),
		),
	}}
}

func malformed(r *run) {
	r.embedded()
	server := r.started()
	load := r.start(server, 50)
	load.AwaitMore(10)
	address := strings.TrimPrefix(server.Public, "http://")
	open := slowRequests(r, address)
	r.figure(slowEnds, 0, float64(open), "%d connections were still open %v after the client opened them", open, slowLimit)
	before := server.Memory().Resident
	accepted := hugeRequests(address)
	r.figure(hugeRefused, 0, float64(accepted), "%d bodies were not refused: the client could send %d MiB, or the connection stayed open", accepted, hugeSent>>20)
	grown := max(0, int64(server.Memory().Peak)-int64(before))
	r.figure(littleMemory, hugeMemory, float64(grown), "the peak of the memory rose by %d MiB", grown>>20)
	r.malformedRequests(server, address)
	r.must(stillServes, !server.Ended(), "%s", running(server))
	r.serve(load)
	r.end(server)
}

// slowRequests sends requests at a byte per second. It returns how many connections are still open after slowLimit.
func slowRequests(r *run, address string) (open int64) {
	const each = 50
	var left atomic.Int64
	var clients sync.WaitGroup
	for n := range 2 * each {
		start := "POST /shorten HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
		if n < each {
			start += "\r\n{" // the body is slow
		}
		clients.Go(func() {
			if trickle(address, start) {
				left.Add(1)
			}
		})
	}
	clients.Wait()
	r.strike(1)
	return left.Load()
}

// trickle sends start and then a byte per second. It reports whether the connection is still open after slowLimit.
func trickle(address, start string) (open bool) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second) //nolint:noctx // DialTimeout has a time limit
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // an error of Close has no effect on the row
	_, err = io.WriteString(conn, start)
	for end := time.Now().Add(slowLimit); err == nil && time.Now().Before(end); {
		if _, err = io.WriteString(conn, "x"); err != nil {
			break
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second)) // if it fails, Read fails too
		_, err = io.Copy(io.Discard, conn)
		if err == nil {
			return false // the server has closed the connection
		}
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			err = nil
		}
	}
	return err == nil
}

// hugeRequests begins to send bodies of 1 GiB, with and without a length. It returns the number of bodies that the server
// did not refuse.
func hugeRequests(address string) (accepted int64) {
	var read atomic.Int64
	var clients sync.WaitGroup
	for n := range 6 {
		clients.Go(func() {
			if upload(address, n%2 == 0) {
				read.Add(1)
			}
		})
	}
	clients.Wait()
	return read.Load()
}

// upload begins to send a body of 1 GiB. It reports whether the server accepted the body: the client could send hugeSent
// bytes, or the server did not close the connection within 2*slowLimit. upload stops when it has sent hugeSent bytes or
// when the server closes the connection.
func upload(address string, withLength bool) (accepted bool) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second) //nolint:noctx // DialTimeout has a time limit
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()                 // an error of Close has no effect on the row
	_ = conn.SetDeadline(time.Now().Add(2 * slowLimit)) // if it fails, Write fails too
	framing, part := fmt.Sprintf("Content-Length: %d", hugeBody), strings.Repeat("x", 64<<10)
	body := part
	if !withLength {
		framing, body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
	}
	_, err = io.WriteString(conn, "POST /shorten HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+framing+"\r\n\r\n")
	for sent := 0; err == nil; sent += len(part) {
		if sent >= hugeSent {
			return true
		}
		_, err = io.WriteString(conn, body)
	}
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// malformedRequests sends malformed requests and records the answers.
func (r *run) malformedRequests(server *lab.Program, address string) {
	const valid = "POST /shorten HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 29\r\nConnection: close\r\n\r\n" +
		`{"url":"https://example.com"}`
	requests := []string{
		"\x00\x01\x02\r\n\r\n", "\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		"GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		strings.Replace(valid, "Content-Length: 29", "Content-Length: -1", 1), strings.Replace(valid, "Content-Length: 29", "Content-Length: 29\r\nContent-Length: 30", 1),
		strings.Replace(valid, "Content-Length: 29", "Transfer-Encoding: gzip", 1), strings.Replace(valid, "Content-Length: 29", "Transfer-Encoding: chunked", 1),
		strings.Replace(valid, `{"url"`, `{{url"`, 1), strings.Replace(valid, "https", "\xff\xfe\xfd\xfc\xfb", 1),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	}
	wrong, last := 0, ""
	for n, request := range requests {
		if status := exchange(address, request); status >= 200 && status < 400 || status == http.StatusInternalServerError {
			wrong++
			last = fmt.Sprintf("request %d was answered with status %d", n, status)
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the random number need not be secret
	for range r.Times(2000) {
		request := []byte(valid) // the request may stay valid, so only status 500 is wrong
		for range 1 + random.IntN(8) {
			request[random.IntN(len(request))] = byte(random.Uint32())
		}
		if status := exchange(address, string(request)); status == http.StatusInternalServerError {
			wrong++
			last = fmt.Sprintf("the request %q was answered with status 500", request)
		}
	}
	r.strike(1)
	if strings.Contains(server.Tail(), "panic") {
		wrong++
		last = "the log contains a panic: " + server.Tail()
	}
	r.figure(neverInternal, 0, float64(wrong), "%d wrong answers or panics were observed%s", wrong, example(last))
}

// exchange sends a request and ends its side of the connection. It returns the status of the answer, or 0 if there is none.
func exchange(address, request string) (status int) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second) //nolint:noctx // DialTimeout has a time limit
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()                 // an error of Close has no effect on the row
	_ = conn.SetDeadline(time.Now().Add(2 * slowLimit)) // if it fails, ReadResponse fails too
	_, _ = io.WriteString(conn, request)                // the server may have answered before it read everything
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close() // only the status matters
	return answer.StatusCode
}
