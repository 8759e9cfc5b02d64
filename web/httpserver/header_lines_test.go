package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// fields returns n different fields of a header.
func fields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "x%d:\r\n", i)
	}
	return b.String()
}

// The header of each request of a connection has a limited number of lines, however the client divides the bytes of the
// request. The lines of bodies do not count.
func TestEachHeaderOfConnectionHasLimitedNumberOfLines(t *testing.T) {
	t.Parallel()
	addr := serveLimited(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	request := func(lines int) string {
		return "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n" + strings.Repeat("x:\r\n", lines-2) + "\r\n" + strings.Repeat("\n", 500)
	}
	const most = maxHeaderLines
	for name, tt := range map[string]struct {
		requests []string // the client sends each request after the answer to the previous request
		statuses []int
	}{
		"lines":           {[]string{request(most), request(2), request(most), request(most + 1)}, []int{204, 204, 204, 431}},
		"method PRI":      {[]string{"PRI / HTTP/1.1\r\nHost: a\r\n\r\n", request(most + 1)}, []int{204, 431}},
		"empty lines":     {[]string{request(2), "\r\n" + request(most), "\r\n" + request(most+1)}, []int{204, 204, 431}},
		"only line feeds": {[]string{"GET / HTTP/1.1\nHost: a\n" + strings.Repeat("x:\n", most) + "\n"}, []int{431}},
		"split pipelined request": {
			[]string{"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nx:", "\r\n" + strings.Repeat("x:\r\n", 2*most) + "\r\n"}, []int{204, 431},
		},
		"pipelined fields": {
			[]string{"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n" + fields(most+1) + "\r\n", ""}, []int{204, 431},
		},
		"unread body": {[]string{strings.Replace(request(most+1), "500", "40000", 1) + strings.Repeat("\n", 39_500)}, []int{431}},
	} {
		for _, step := range []int{1, 7, 1 << 20} { // bytes that the client sends at a time
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			answers := bufio.NewReader(conn)
			for i, text := range tt.requests {
				for ; text != ""; text = text[min(step, len(text)):] {
					if _, err := io.WriteString(conn, text[:min(step, len(text))]); err != nil {
						break // the server has refused the request
					}
				}
				answer, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatalf("%s, request %d, %d bytes at a time: %v", name, i+1, step, err)
				}
				_, err = io.Copy(io.Discard, answer.Body)
				if err := errors.Join(err, answer.Body.Close()); err != nil {
					t.Error(err)
				}
				if answer.StatusCode != tt.statuses[i] {
					t.Errorf("%s, request %d, %d bytes at a time: status %d, want %d", name, i+1, step, answer.StatusCode, tt.statuses[i])
				}
				if answer.StatusCode == http.StatusRequestHeaderFieldsTooLarge {
					if _, err := answers.ReadByte(); !errors.Is(err, io.EOF) {
						t.Errorf("%s, %d bytes at a time: after the refusal, the client reads %v, want the end", name, step, err)
					}
				}
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
