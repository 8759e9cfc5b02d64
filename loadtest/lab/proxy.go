package lab

import (
	"bytes"
	"net"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// relayBuffer is the size of one read, in bytes.
const relayBuffer = 64 << 10

// NetProxy passes bytes between clients and a server, such as a database server. Its methods make it lose
// replies, reset connections, or connect new clients to another server. They may be called concurrently.
type NetProxy struct {
	Addr string // host:port where the proxy listens

	listener net.Listener
	running  sync.WaitGroup
	lost     atomic.Int64 // number of lost replies

	mu       sync.Mutex
	upstream string
	broken   bool
	conns    map[net.Conn]struct{}     // both ends of every connection
	loses    func(request []byte) bool // reports whether the proxy loses the reply to request; nil means never
	maxBytes int                       // at most this number of bytes of a lost reply reach the client
}

// Proxy starts a proxy to the address upstream.
func Proxy(r T, upstream string) *NetProxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening does not block
	must(r, err, "start a proxy")
	p := &NetProxy{Addr: listener.Addr().String(), listener: listener, upstream: upstream, conns: make(map[net.Conn]struct{})}
	p.running.Go(p.accept)
	r.Cleanup(func() {
		p.Away()
		if err := listener.Close(); err != nil {
			r.Errorf("close a proxy: %v", err)
		}
		p.running.Wait()
	})
	return p
}

// Lose makes the proxy lose the reply to each n-th request for which match returns true. The server
// gets and executes the request, and the client does not learn the result. The proxy forwards at most
// the first maxBytes bytes of the reply, never the whole reply, and resets the connection. If match is
// nil, the proxy loses no further replies.
func (p *NetProxy) Lose(n, maxBytes int, match func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loses, p.maxBytes = nil, maxBytes
	if match == nil {
		return
	}
	seen := 0
	p.loses = func(request []byte) bool {
		if !match(request) {
			return false
		}
		seen++
		return seen%n == 0
	}
}

// Lost returns the number of lost replies.
func (p *NetProxy) Lost() int { return int(p.lost.Load()) }

// Away resets all connections. It also makes the proxy reset each new connection until the next call of Lead.
func (p *NetProxy) Away() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = true
	for conn := range p.conns {
		reset(conn)
	}
}

// Lead resets all connections and connects new clients to upstream.
func (p *NetProxy) Lead(upstream string) {
	p.Away()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream, p.broken = upstream, false
}

func (p *NetProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve passes bytes between a client and the server until one of them closes its connection.
func (p *NetProxy) serve(client net.Conn) {
	defer p.leave(client)
	server, err := net.Dial("tcp", p.enter(client)) //nolint:noctx // a connection to this machine
	if err != nil {
		return
	}
	defer p.leave(server)
	p.enter(server)
	var losing atomic.Pointer[int] // if not nil, the next reply is lost, and at most this number of its bytes reach the client
	p.running.Go(func() {
		defer reset(server) // this also ends the relay from the server to the client
		relay(server, client, func(request []byte) []byte {
			if maxBytes, ok := p.picks(request); ok {
				losing.Store(&maxBytes)
			}
			return request
		})
	})
	relay(client, server, func(reply []byte) []byte {
		maxBytes := losing.Load()
		if maxBytes == nil {
			return reply
		}
		p.lost.Add(1)
		_, _ = client.Write(reply[:min(*maxBytes, len(reply)-1)]) // the connection is reset in any case
		return nil
	})
}

// enter records one end of a connection and returns the address of the server. Between a call of Away and
// the next call of Lead, it also resets this end.
func (p *NetProxy) enter(conn net.Conn) (upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = struct{}{}
	if p.broken {
		reset(conn)
	}
	return p.upstream
}

func (p *NetProxy) leave(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	reset(conn)
}

// picks reports whether the proxy loses the reply to request. At most maxBytes bytes of a lost reply
// reach the client.
func (p *NetProxy) picks(request []byte) (maxBytes int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.maxBytes, p.loses != nil && p.loses(request)
}

// relay reads bytes from src, passes them to the function change, and writes the result to dst. It returns when src
// or dst is closed, or when change returns nil.
func relay(dst, src net.Conn, change func([]byte) []byte) {
	buf := make([]byte, relayBuffer)
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

// reset closes a connection as a crash does. Bytes in transit are lost, and the other side gets an
// error at once.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the connection may be closed already
	}
	_ = conn.Close()
}

// A client sends the full text of a script or statement only once. Later requests contain only the
// name of the script or statement. The functions that ScriptWith and StatementWith return record these
// names. Only one proxy may use a returned function, because the lock of this proxy protects the recorded names.

// ScriptWith returns a function that matches requests to run a Redis script that contains text.
func ScriptWith(text string) func(request []byte) bool {
	evalHead := regexp.MustCompile(`(?i)\r\neval\r\n\$(\d+)\r\n`)
	known := make(map[string]struct{}) // the digests, which are the names
	return func(request []byte) bool {
		head := evalHead.FindSubmatchIndex(request)
		if head == nil {
			return containsAny(request, known)
		}
		size, err := strconv.Atoi(string(request[head[2]:head[3]]))
		if err != nil || head[1]+size > len(request) {
			return false // the script is not complete
		}
		script := request[head[1] : head[1]+size]
		if !bytes.Contains(script, []byte(text)) {
			return false
		}
		known[redis.NewScript(string(script)).Hash()] = struct{}{}
		return true
	}
}

// StatementWith returns a function that matches requests to execute a PostgreSQL statement that
// contains text.
func StatementWith(text string) func(request []byte) bool {
	// A Parse message contains its length, the name of the statement and the statement.
	parse := regexp.MustCompile(`(?s)P.{4}([a-z0-9_]+)\x00([^\x00]*)\x00`)
	known := make(map[string]struct{})
	return func(request []byte) bool {
		for _, statement := range parse.FindAllSubmatch(request, -1) {
			if bytes.Contains(statement[2], []byte(text)) {
				known[string(statement[1])] = struct{}{}
				return false // the client executes the statement in a later request
			}
		}
		return containsAny(request, known)
	}
}

func containsAny(request []byte, names map[string]struct{}) bool {
	for name := range names {
		if bytes.Contains(request, []byte(name)) {
			return true
		}
	}
	return false
}
