package httpserver

import (
	"bytes"
	"io"
	"net"
	"net/http"
)

const (
	// maxHeaderLines is the number of lines that the header of an HTTP/1 request may have, without the request line. net/http
	// limits only the bytes of a header, but a header of 16 KiB with lines of a few bytes takes 300 KB in memory. Apache
	// has the same limit (LimitRequestFields).
	maxHeaderLines = 100
	// maxSkipped is the number of bytes of a header with too many lines that the server reads before its answer.
	maxSkipped = 64 << 10
)

const tooManyLines = "HTTP/1.1 431 Request Header Fields Too Large" + protocolErrorHeaders + "The header of a request may have 100 lines."

// header counts the lines of the header of a request while net/http reads it. Only the goroutine of the connection uses it,
// and during a request the goroutine of net/http that waits for the end of the connection.
type header struct {
	start    [3]byte // the first bytes of the connection
	started  int     // number of bytes in start
	lines    int
	text     bool // whether the present line has other bytes than a carriage return
	complete bool // whether the empty line at the end of the header was read
}

// see records bytes that were read from the connection.
func (h *header) see(p []byte) {
	h.started += copy(h.start[h.started:], p)
	for !h.complete && len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		h.text = h.text || len(bytes.Trim(line, "\r")) > 0
		p = rest
		if ended {
			h.complete = !h.text
			h.lines++
			h.text = false
		}
	}
}

// next prepares for the header of the next request. A connection that begins with "PRI" is an HTTP/2 connection (RFC 9113,
// section 3.4), and its frames have no lines.
func (h *header) next() {
	if string(h.start[:]) != "PRI" {
		h.lines, h.text, h.complete = 0, false, false
	}
}

// Read implements [net.Conn]. If a header has too many lines, Read discards the rest of it, answers with status 431 and
// ends the connection.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.header.see(p[:n])
	const requestLine, emptyLine = 1, 1
	if c.header.lines <= requestLine+maxHeaderLines+emptyLine {
		return n, err
	}
	for skipped := n; err == nil && !c.header.complete && skipped < maxSkipped; skipped += n {
		n, err = c.TCPConn.Read(p)
		c.header.see(p[:n])
	}
	if err == nil {
		_, err = c.Write([]byte(tooManyLines))
	}
	if err == nil {
		err = io.EOF
	}
	return 0, err
}

// countHeaderLines is the ConnState function of a server. net/http calls it with StateIdle when a request has ended and no
// other goroutine reads from its connection.
func countHeaderLines(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*countedConn); ok && state == http.StateIdle {
		c.header.next()
	}
}
