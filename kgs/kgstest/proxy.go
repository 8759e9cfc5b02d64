package kgstest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// CuttingProxy forwards connections to a server. When Cut is true, it drops the next
// reply, closes the connection and sets Cut to false.
type CuttingProxy struct {
	Listener net.Listener
	target   string
	Cut      atomic.Bool    // whether to drop the next reply and close its connection
	freezes  atomic.Int64   // number of calls of Freeze
	running  sync.WaitGroup // goroutines of the proxy
}

// Freeze makes the proxy forward nothing more on its present connections. They may stay open until the test ends.
func (p *CuttingProxy) Freeze() { p.freezes.Add(1) }

// NewCuttingProxy starts a proxy for the server at target, a host:port. The proxy ends with the
// test.
func NewCuttingProxy(t *testing.T, target string) *CuttingProxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &CuttingProxy{Listener: listener, target: target}
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(t.Context(), client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // ends Accept; the error does not matter
		p.running.Wait()
	})
	return p
}

// serve returns when the client or the server closes its connection. If the connection is frozen, serve may run until
// ctx ends. The clients of a test close their connections before the test ends.
func (p *CuttingProxy) serve(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }() // the error does not matter, because no test checks it
	server, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }() // the error does not matter, because no test checks it
	freezes := p.freezes.Load()
	frozen := func() bool {
		if p.freezes.Load() == freezes {
			return false
		}
		<-ctx.Done()
		return true
	}
	p.running.Go(func() {
		defer func() { _ = server.Close() }() // also ends the copy in the other direction
		copyUntil(server, client, frozen)
	})
	copyUntil(client, server, func() bool { return frozen() || p.Cut.CompareAndSwap(true, false) })
}

// copyUntil copies from src to dst. It ends on an error, or when stop returns true after a read.
// In the second case it drops the data of that read.
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
