//go:build drill

package drill

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between programs and their database. It passes everything on, until a
// drill has it lose replies, be away, or lead elsewhere.
type proxy struct {
	addr string // where it listens

	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	upstream string
	gone     bool
	conns    map[net.Conn]struct{} // both ends of every connection
	loss     loss
}

// loss is which replies get lost.
type loss struct {
	of    func(request []byte) bool // nil for none; not called concurrently
	every int                       // of the requests that it picks, each so many-th
	keep  int                       // bytes of the reply that get through all the same
	seen  int                       // requests that were picked
	lost  int                       // replies that were lost
}

// newProxy starts a proxy to upstream, which ends with the test.
func newProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: listener.Addr().String(), listener: listener, upstream: upstream, conns: make(map[net.Conn]struct{})}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		p.away()
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		p.running.Wait()
	})
	return p
}

// lose has the reply to every so many-th request that of picks get lost: the server has
// got the request and begun to answer, keep bytes get through, never the last one, and
// then the connection is reset. With a nil of it loses no more.
func (p *proxy) lose(every, keep int, of func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss = loss{of: of, every: every, keep: keep, lost: p.loss.lost}
}

// lost is how many replies got lost so far.
func (p *proxy) lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loss.lost
}

// away resets every connection, and each new one at once, until lead.
func (p *proxy) away() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for conn := range p.conns {
		reset(conn)
	}
}

// lead passes new connections on to upstream from now on; those that exist are reset.
func (p *proxy) lead(upstream string) {
	p.away()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream, p.gone = upstream, false
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // it is closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve passes on what a client and the server say, until one of them ends.
func (p *proxy) serve(client net.Conn) {
	defer p.drop(client)
	server, err := net.Dial("tcp", p.enter(client))
	if err != nil {
		return
	}
	defer p.drop(server)
	p.enter(server)
	var doomed atomic.Pointer[int] // the reply that comes next is lost, but for so many bytes
	p.running.Go(func() {
		defer reset(server) // and so the other direction ends too
		relay(server, client, func(request []byte) []byte {
			if keep, ok := p.picks(request); ok {
				doomed.Store(&keep)
			}
			return request
		})
	})
	relay(client, server, func(reply []byte) []byte {
		keep := doomed.Load()
		if keep == nil {
			return reply
		}
		p.count()
		_, _ = client.Write(reply[:min(*keep, len(reply)-1)]) // the connection is lost anyway
		return nil
	})
}

// enter notes an end of a connection and gives the address of the server. While the
// proxy is away it resets the end.
func (p *proxy) enter(conn net.Conn) (upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = struct{}{}
	if p.gone {
		reset(conn)
	}
	return p.upstream
}

func (p *proxy) drop(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	reset(conn)
}

// picks says whether the reply to request is to get lost, but for keep bytes.
func (p *proxy) picks(request []byte) (keep int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loss.of == nil || !p.loss.of(request) {
		return 0, false
	}
	p.loss.seen++
	return p.loss.keep, p.loss.seen%p.loss.every == 0
}

func (p *proxy) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss.lost++
}

// relay copies what src says, as change makes it, until an end is closed or change gives
// nothing.
func relay(dst, src net.Conn, change func([]byte) []byte) {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		text := change(buf[:n])
		if text == nil {
			return
		}
		if _, err := dst.Write(text); err != nil {
			return
		}
	}
}

// reset closes a connection as a crash would: what is on its way is lost, and the other
// side is told so at once.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may be closed already
	}
	_ = conn.Close()
}
