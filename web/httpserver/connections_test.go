package httpserver

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/internal/testenv/logbuffer"
)

// limited is a listener with limits. It does not close a connection that it has accepted.
type limited struct {
	*Connections

	addr     string
	registry *prometheus.Registry
	log      *logbuffer.Buffer
	accepted chan net.Conn
}

// newLimited returns a listener. Each address is a client, and PerClient does not apply to 127.0.0.1.
func newLimited(t *testing.T, total, perClient int) *limited {
	t.Helper()
	var log logbuffer.Buffer
	l := &limited{registry: prometheus.NewRegistry(), log: &log, accepted: make(chan net.Conn, 100)}
	l.Connections = NewConnections(ConnectionLimits{
		Total: total, PerClient: perClient,
		Client: func(addr netip.Addr) (netip.Prefix, bool) {
			return netip.PrefixFrom(addr, 32), addr != netip.MustParseAddr("127.0.0.1")
		},
	}, l.registry, slog.New(slog.NewTextHandler(&log, nil)))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.addr = listener.Addr().String()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for counted := l.Limit(listener); ; {
			conn, err := counted.Accept()
			if err != nil {
				return
			}
			l.accepted <- conn
		}
	}()
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return l
}

// dial opens a connection from an address. It returns the server's end of the connection, or nil if the server closed
// the connection.
func (l *limited) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", l.addr)
	if errors.Is(err, syscall.ECONNRESET) {
		return nil // the server closed the connection before this end was ready
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the test is over
	closed := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		closed <- err
	}()
	select {
	case c := <-l.accepted:
		t.Cleanup(func() { _ = c.Close() }) // the test may have closed the connection
		return c
	case <-closed:
		return nil
	}
}

func (l *limited) wantRefused(t *testing.T, from, limit string) {
	t.Helper()
	before := testutil.ToFloat64(l.counter(limit))
	if l.dial(t, from) != nil {
		t.Errorf("a connection from %s is accepted beyond the limit %s", from, limit)
	}
	if got := testutil.ToFloat64(l.counter(limit)); got != before+1 {
		t.Errorf("%g connections are counted as refused by the limit %s, want %g", got, limit, before+1)
	}
}

func (l *limited) counter(limit string) prometheus.Counter {
	if limit == "total" {
		return l.refusedTotal
	}
	return l.refusedClient
}

func (l *limited) wantAccepted(t *testing.T, from string) net.Conn {
	t.Helper()
	conn := l.dial(t, from)
	if conn == nil {
		t.Fatalf("a connection from %s is refused", from)
	}
	return conn
}

// The limit of one client does not apply to other clients. When a connection is closed, its client may open another
// connection. A second Close of the same connection changes nothing.
func TestConnectionsOfAClientAreLimited(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 100, 2)
	first := l.wantAccepted(t, "127.0.0.2")
	l.wantAccepted(t, "127.0.0.2")
	l.wantRefused(t, "127.0.0.2", "address")
	l.wantAccepted(t, "127.0.0.3")
	for range 5 {
		l.wantAccepted(t, "127.0.0.1") // PerClient does not apply
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	_ = first.Close() // returns net.ErrClosed
	l.wantAccepted(t, "127.0.0.2")
	l.wantRefused(t, "127.0.0.2", "address")
	if got := l.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") ||
		!strings.Contains(got, "setting=MAX_CONNECTIONS_PER_ADDRESS") || !strings.Contains(got, "client=127.0.0.2/32") {
		t.Errorf("the log is %q, want one warning with the setting and the client", got)
	}
}

// All connections count against the limit of the listener. The metrics and the memory follow the number of open connections.
func TestConnectionsOfAListenerAreLimited(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 3, 3)
	open := []net.Conn{l.wantAccepted(t, "127.0.0.1"), l.wantAccepted(t, "127.0.0.2"), l.wantAccepted(t, "127.0.0.3")}
	l.wantRefused(t, "127.0.0.4", "total")
	l.wantRefused(t, "127.0.0.1", "total")
	want := func(n string) {
		t.Helper()
		err := testutil.GatherAndCompare(l.registry, strings.NewReader("# HELP http_connections Connections that count against MAX_CONNECTIONS: open connections of the public listener or of the listener of the key service, and closed connections whose data the client has not received.\n"+
			"# TYPE http_connections gauge\nhttp_connections "+n+"\n"), "http_connections")
		if err != nil {
			t.Error(err)
		}
	}
	want("3")
	for _, conn := range open {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	want("0")
	if n := len(l.byClient); n != 0 {
		t.Errorf("%d clients without a connection are in memory", n)
	}
}

// net/http uses methods of *net.TCPConn that net.Conn lacks. A counted connection has these methods.
func TestCountedConnectionKeepsMethodsOfTCPConn(t *testing.T) {
	t.Parallel()
	conn := newLimited(t, 1, 1).wantAccepted(t, "127.0.0.1")
	if _, ok := conn.(io.ReaderFrom); !ok {
		t.Error("no ReadFrom, so files are copied through memory")
	}
	closer, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("no CloseWrite, so clients may lose the end of an answer")
	}
	if err := closer.CloseWrite(); err != nil {
		t.Error(err)
	}
	if err := conn.SetDeadline(time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("Read = %v, want an error because the deadline has passed", err)
	}
}

// While requests wait on several connections, no connection may occupy the processor for a whole time slice, even if many
// of its requests wait.
func TestConnectionsWithPipelinedRequestsAreServedInTurn(t *testing.T) { // not parallel, because it changes the number of processors
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const conns, requests = 4, 1000 // all requests of a connection fit into the buffers of the kernel
	var mu sync.Mutex
	answered := make(map[string]int) // by the address of the client
	var last string
	var counted int        // requests in the first half of each connection
	var turns int          // series of successive counted requests of one connection
	var all sync.WaitGroup // ends when each client has sent all of its requests
	all.Add(conns)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		all.Wait()
		mu.Lock()
		defer mu.Unlock()
		answered[r.RemoteAddr]++
		if answered[r.RemoteAddr] > requests/2 { // in the second half, other connections may have no request left
			return
		}
		counted++
		if r.RemoteAddr != last {
			last = r.RemoteAddr
			turns++
		}
	})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limits := ConnectionLimits{Total: conns, Client: func(netip.Addr) (netip.Prefix, bool) { return netip.Prefix{}, false }}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: handler}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(NewConnections(limits, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Limit(listener))
	}()
	var clients sync.WaitGroup
	for range conns {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			const request = "GET / HTTP/1.1\r\nHost: a\r\n"
			_, err := io.WriteString(conn, strings.Repeat(request+"\r\n", requests-1)+request+"Connection: close\r\n\r\n")
			all.Done()
			if err == nil {
				_, err = io.Copy(io.Discard, conn)
			}
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	for client, n := range answered {
		if n != requests {
			t.Errorf("%s got %d answers, want %d", client, n, requests)
		}
	}
	if len(answered) != conns {
		t.Fatalf("%d connections had requests, want %d", len(answered), conns)
	}
	// A single series may be longer, because the kernel may suspend the threads of the other connections.
	if average := counted / turns; average > 10 {
		t.Errorf("the server answered %d requests of one connection in a row on average, want at most 10", average)
	}
}
