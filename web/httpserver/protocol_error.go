package httpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strconv"

	"keypool/web/internal/reply"
)

// protocolErrorHeaders are the headers of an answer that net/http itself gives to a request that it cannot read. No
// handler sees such a request. net/http writes the answer to the connection in one piece: the status line, these
// headers and a line of text. The method refuse writes an answer of the same form. No answer of a handler has exactly
// these headers, because every answer of a handler has a Date.
const protocolErrorHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write implements [net.Conn]. It replaces an answer of net/http itself, or of the method refuse, by a problem (RFC 9457)
// with the same status.
//
// After it has written any other data, Write lets other goroutines run. If a client sends many requests before it reads
// the answers (pipelining, RFC 9112 section 9.3.2), the goroutine of its connection does not wait for the network. If
// Write did not let other goroutines run, this goroutine would occupy a processor for a time slice of 10 ms. Several
// hundred such connections would delay every other request by about a second.
func (c *countedConn) Write(p []byte) (int, error) {
	if answer := protocolProblem(p); answer != nil {
		if _, err := c.send(answer); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	n, err := c.send(p)
	runtime.Gosched()
	return n, err
}

// protocolProblem returns the answer with the problem that replaces p, or nil if p is not an answer with
// protocolErrorHeaders.
func protocolProblem(p []byte) []byte {
	const start = "HTTP/1.1 "
	if len(p) < len(start) || p[len(start)-1] != ' ' || !bytes.ContainsAny(p[len(start):min(len(p), len(start)+1)], "45") {
		return nil // not an error answer
	}
	line, text, found := bytes.Cut(p, []byte(protocolErrorHeaders))
	if !found || !bytes.HasPrefix(line, []byte(start)) || bytes.IndexByte(line, '\n') >= 0 || len(line) < len(start)+3 {
		return nil
	}
	status, err := strconv.Atoi(string(line[len(start) : len(start)+3]))
	if err != nil || http.StatusText(status) == "" {
		return nil
	}
	body, err := malformed(status, string(text))
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "%s%d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		start, status, http.StatusText(status), len(body), body)
}

// malformed returns the body of a problem.
func malformed(status int, detail string) ([]byte, error) {
	return json.Marshal(reply.Problem{
		Type: reply.TypePrefix + "malformed", Title: "The request is malformed", Status: status, Detail: detail,
	})
}
