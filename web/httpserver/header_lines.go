package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// maxHeaderLines is the number of lines that the header of an HTTP/1 request may have, without the request line. net/http
	// limits only the bytes of a header, but a header of 16 KiB with lines of a few bytes takes 300 KB in memory. Apache
	// has the same limit (LimitRequestFields).
	maxHeaderLines = 100
	// refuseTimeout and refuseBytes limit how long, and how much, the server reads from a connection after it has refused a
	// header. The server continues to read because a client that is still sending could lose the answer if the server closed
	// the connection.
	refuseTimeout = time.Second
	refuseBytes   = 64 << 10
)

const (
	tooManyLines = "HTTP/1.1 431 Request Header Fields Too Large" + protocolErrorHeaders + "The header of a request may have at most 100 lines."
	// http2Preface is how an HTTP/2 connection begins (RFC 9113, section 3.4).
	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// header counts the lines of the header of a request while net/http reads the header. It ignores the lines of a
// pipelined request that net/http has read before the previous request ended. These lines have at most 4 KiB, the size of
// the buffer of net/http.
type header struct {
	start    [len(http2Preface)]byte // the first bytes of the connection
	started  int                     // number of bytes in start
	lines    int                     // lines with text, with the request line
	text     bool                    // whether the present line has other bytes than carriage returns
	complete bool                    // whether the empty line at the end of the header was read
}

// see records bytes that were read from the connection. An empty line before the request line does not end the header.
func (h *header) see(p []byte) {
	h.started += copy(h.start[h.started:], p)
	for !h.complete && len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		h.text = h.text || len(bytes.Trim(line, "\r")) > 0
		if ended {
			h.complete = !h.text && h.lines > 0
			if h.text {
				h.lines++
			}
			h.text = false
		}
		p = rest
	}
}

// next resets the counts for the header of the next request. On an HTTP/2 connection, other goroutines may call see at the
// same time. Therefore next changes nothing on such a connection, whose frames have no lines. It only reads start, which
// no longer changes after the first bytes of the connection.
func (h *header) next() {
	if string(h.start[:]) != http2Preface {
		h.lines, h.text, h.complete = 0, false, false
	}
}

// Read implements [net.Conn]. If a header has too many lines, Read answers with status 431, and fails.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.header.see(p[:n])
	if c.header.lines > 1+maxHeaderLines {
		return 0, c.refuse()
	}
	return n, err
}

// refuse answers with status 431 and discards what the client still sends. net/http gives no answer to the error that
// refuse returns.
func (c *countedConn) refuse() error {
	err := c.SetDeadline(time.Now().Add(refuseTimeout))
	if err == nil {
		_, err = c.Write([]byte(tooManyLines))
	}
	if err == nil {
		err = c.CloseWrite()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(c.TCPConn, refuseBytes))
	}
	return &net.OpError{Op: "read", Net: "tcp", Err: errors.Join(errors.New("the header has too many lines"), err)}
}

// limitFields refuses a request with many different header fields. It covers the requests whose lines were not counted: HTTP/2
// requests and some pipelined requests. It does not wait for the body, so a refused request does not keep its header in
// memory while its body arrives.
func limitFields(next http.Handler) http.Handler {
	const status = http.StatusRequestHeaderFieldsTooLarge
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header) <= maxHeaderLines {
			next.ServeHTTP(w, r)
			return
		}
		body, err := malformed(status, "The header of a request may have at most 100 fields.")
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = w.Write(body) // an error means that the client has disconnected
	})
}

// countHeaderLines starts the count for the header of the next request of a connection. It is the ConnState function of a
// server. net/http calls it with StateIdle when an HTTP/1 request has ended and no other goroutine reads from the
// connection.
func countHeaderLines(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*countedConn); ok && state == http.StateIdle {
		c.header.next()
	}
}
