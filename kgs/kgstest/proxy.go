package kgstest

import (
	"net"
	"sync/atomic"
	"testing"
)

// CuttingProxy passes connections on to a Redis and, when told to, loses one reply.
type CuttingProxy struct {
	Listener net.Listener
	target   string
	Cut      atomic.Bool // the next reply is lost and its connection closed
}

func NewCuttingProxy(t *testing.T, target string) *CuttingProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &CuttingProxy{Listener: listener, target: target}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close() // ends Accept; there is nothing to lose
		<-done
	})
	return p
}

// serve ends when either side closes, as the clients of the test do before it ends.
func (p *CuttingProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer server.Close()
		copyUntil(server, client, func() bool { return false })
	}()
	copyUntil(client, server, func() bool { return p.Cut.CompareAndSwap(true, false) })
}

// copyUntil drops what was read, and ends, when stop says so.
func copyUntil(dst, src net.Conn, stop func() bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if err != nil || stop() {
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}
