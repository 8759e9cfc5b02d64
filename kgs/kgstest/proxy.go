package kgstest

import (
	"context"
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

// NewCuttingProxy starts a proxy in front of the server at target, a host:port. It ends with
// the test.
func NewCuttingProxy(t *testing.T, target string) *CuttingProxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
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
			go p.serve(t.Context(), client)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close() // ends Accept; there is nothing to lose
		<-done
	})
	return p
}

// serve ends when either side closes, as the clients of the test do before it ends.
func (p *CuttingProxy) serve(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }() // a test looks at the other end
	server, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }() // likewise
	go func() {
		defer func() { _ = server.Close() }() // ends the other direction too
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
