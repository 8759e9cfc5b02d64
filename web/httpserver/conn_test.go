package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pair returns both ends of a connection, and a channel that is closed when the connection is no longer counted.
func (l *limited) pair(t *testing.T) (client net.Conn, server *countedConn, uncounted chan struct{}) {
	t.Helper()
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // the test is over
	server = (<-l.accepted).(*countedConn)
	t.Cleanup(func() { _ = server.Close() }) // the test may have closed the connection
	uncounted = make(chan struct{})
	leave := server.closed
	server.closed = func() { leave(); close(uncounted) }
	return client, server, uncounted
}

// wantNoSocket fails if the kernel has a socket of the server for the connection.
func wantNoSocket(t *testing.T, server *countedConn) {
	t.Helper()
	sockets, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	port := func(a net.Addr) string { return fmt.Sprintf(":%04X", a.(*net.TCPAddr).Port) }
	for line := range strings.Lines(string(sockets)) {
		f := strings.Fields(line)
		if strings.HasSuffix(f[1], port(server.LocalAddr())) && strings.HasSuffix(f[2], port(server.RemoteAddr())) {
			t.Errorf("the kernel has a socket in state %s with the queues %s, want none", f[3], f[4])
		}
	}
}

func wantReset(t *testing.T, client net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, client); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client reads until %v, want %v", err, syscall.ECONNRESET)
	}
}

// A client that reads nothing must not make the kernel keep an answer after the connection has been closed.
func TestClosedConnectionDiscardsDataAfterFailedWrite(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 100, 100)
	client, server, uncounted := l.pair(t)
	err := server.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil {
		_, err = server.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-uncounted:
	default:
		t.Error("the connection is still counted")
	}
	wantNoSocket(t, server)
	wantReset(t, client)
}

const unreceived = 256 << 10 // more than the client's kernel receives, and less than the server's kernel keeps

// A slow client gets the whole answer. Until then, its connection counts although it is closed.
func TestClosedConnectionCountsTowardLimitUntilDataIsReceived(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 1, 1)
	client, server, uncounted := l.pair(t)
	if _, err := server.Write(make([]byte, unreceived)); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second Close returns %v, want %v", err, net.ErrClosed)
	}
	l.wantRefused(t, "127.0.0.2", "total")
	if n, err := io.Copy(io.Discard, client); n != unreceived || err != nil {
		t.Errorf("the client gets %d bytes and the error %v, want all %d bytes", n, err, unreceived)
	}
	<-uncounted
	l.wantAccepted(t, "127.0.0.2")
}

// If a closed connection counted for a second, a client that opens a connection for each request would soon reach the
// limits. On a busy machine, any measurement may be slow, so one fast connection of ten is enough.
func TestClosedConnectionCountsOnlyBrieflyAfterDataIsReceived(t *testing.T) {
	t.Parallel()
	l := newLimited(t, 1, 1)
	for range 10 {
		client, server, uncounted := l.pair(t)
		if _, err := server.Write(make([]byte, unreceived)); err != nil {
			t.Fatal(err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, client); err != nil {
			t.Fatal(err)
		}
		received := time.Now()
		<-uncounted
		if time.Since(received) < 300*time.Millisecond {
			return
		}
	}
	t.Error("ten connections counted for 300 ms or longer after the client had received their data")
}

func TestUnreceivedDataOfClosedConnectionIsDiscardedAtTimeout(t *testing.T) {
	t.Parallel()
	client, server, uncounted := newLimited(t, 1, 1).pair(t)
	if _, err := server.Write(make([]byte, unreceived)); err != nil {
		t.Fatal(err)
	}
	release(server.unsent(), 0, 50*time.Millisecond, server.closed)
	if err := server.TCPConn.Close(); err != nil {
		t.Error(err)
	}
	<-uncounted
	server.closed = func() {} // for the cleanup
	wantNoSocket(t, server)
	wantReset(t, client)
}
