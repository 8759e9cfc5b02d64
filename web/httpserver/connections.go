package httpserver

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
)

// ConnectionLimits configures [Connections].
type ConnectionLimits struct {
	Total     int // open connections of a listener
	PerClient int // open connections of one client
	// Client returns the client to which an address belongs. limited is false if PerClient does not apply to this client.
	Client func(addr netip.Addr) (client netip.Prefix, limited bool)
}

// ClientOf returns the prefix of the addresses that count as one client: a single IPv4 address, or an IPv6 /64. A /64 is
// the smallest network that a subscriber gets (RFC 6177).
func ClientOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	client, _ := addr.Prefix(min(addr.BitLen(), 64)) // Prefix accepts every length up to BitLen
	return client
}

// Connections limits the open connections of a listener. It closes a connection beyond a limit at once, so such a
// connection costs no goroutine and no buffer. The memory of a Connections is proportional to the number of open
// connections. A Connections is safe for concurrent use.
type Connections struct {
	ConnectionLimits

	log     *slog.Logger
	warning rate.Sometimes
	// refusedTotal and refusedClient count the connections that each limit refused.
	refusedTotal, refusedClient prometheus.Counter

	mu       sync.Mutex
	open     int
	byClient map[netip.Prefix]int // a client without an open connection has no entry
}

// NewConnections registers the metrics of the connections with reg. It panics if reg already has metrics with these names.
func NewConnections(limits ConnectionLimits, reg prometheus.Registerer, log *slog.Logger) *Connections {
	c := &Connections{
		ConnectionLimits: limits, log: log, warning: rate.Sometimes{Interval: time.Minute}, byClient: make(map[netip.Prefix]int),
	}
	auto := promauto.With(reg)
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "http_connections", Help: "Connections that count against MAX_CONNECTIONS: open connections of the public listener or of the listener of the key service, and closed connections whose data the client has not received."}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(c.open)
	})
	refused := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "http_connections_refused_total",
		Help: "Connections that the listener closed at once, by the limit that was reached: total or address.",
	}, []string{"limit"})
	c.refusedTotal, c.refusedClient = refused.WithLabelValues("total"), refused.WithLabelValues("address")
	return c
}

// Limit returns a listener that accepts the connections of l within the limits. The connections of l must be TCP connections.
func (c *Connections) Limit(l net.Listener) net.Listener { return limitedListener{l, c} }

type limitedListener struct {
	net.Listener

	connections *Connections
}

// Accept implements [net.Listener].
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := accepted.(*net.TCPConn) // Limit requires TCP connections
		if admitted := l.connections.admit(conn); admitted != nil {
			return admitted, nil
		}
		_ = conn.SetLinger(0) // so that no socket remains in the kernel; an error means that the client has disconnected
		_ = conn.Close()      // an error loses no data because none was sent
	}
}

// admit returns the counted connection, or nil if a limit is reached.
func (c *Connections) admit(conn *net.TCPConn) net.Conn {
	client, limited := c.clientOf(conn)
	refused, setting, open := c.refusedTotal, "MAX_CONNECTIONS", 0
	c.mu.Lock()
	switch ofClient := c.byClient[client]; {
	case c.open >= c.Total:
		open = c.open
	case limited && ofClient >= c.PerClient:
		refused, setting, open = c.refusedClient, "MAX_CONNECTIONS_PER_ADDRESS", ofClient
	default:
		c.open++
		c.byClient[client]++
		c.mu.Unlock()
		return &countedConn{TCPConn: conn, closed: func() { c.leave(client) }}
	}
	c.mu.Unlock()
	refused.Inc()
	c.warning.Do(func() {
		c.log.Warn("connections are refused because too many are open", "setting", setting, "open", open, "client", client.String())
	})
	return nil
}

func (c *Connections) clientOf(conn *net.TCPConn) (client netip.Prefix, limited bool) {
	peer, _ := conn.RemoteAddr().(*net.TCPAddr) // nil if the client has closed the connection
	if peer == nil {
		return netip.Prefix{}, false
	}
	return c.Client(peer.AddrPort().Addr())
}

func (c *Connections) leave(client netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.byClient[client]--; c.byClient[client] == 0 {
		delete(c.byClient, client)
	}
}
