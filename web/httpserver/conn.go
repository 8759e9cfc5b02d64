package httpserver

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// countedConn is a connection that counts against the limits of a listener until it is closed and the client has received
// all data (see Close). It embeds a *net.TCPConn, because net/http uses methods of this type that net.Conn lacks.
type countedConn struct {
	*net.TCPConn

	once   sync.Once
	closed func()
	header header
}

// send writes p to the socket. If the write fails, a later Close discards the data that the client has not received.
func (c *countedConn) send(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if err != nil {
		discard(c.TCPConn)
	}
	return n, err
}

// Close implements [net.Conn]. A closed connection counts until the client has received all data. If the client has not
// received all data within writeTimeout, the kernel discards the rest, and the connection no longer counts. Without this
// time limit, the kernel would keep the rest for minutes. If closed connections did not count, a client that reads nothing
// could make the kernel keep the data of more connections than the limits permit.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		if unsent := c.unsent(); unsent != nil {
			release(unsent, 0, writeTimeout, c.closed)
			return
		}
		c.closed()
	})
	return c.TCPConn.Close()
}

// unsent returns a duplicate of the socket, or nil if the client has received all data or will not receive the rest.
// While the duplicate is open, the kernel continues to send after Close.
func (c *countedConn) unsent() *os.File {
	if discards, unreceived := stateOf(c.TCPConn); discards || !unreceived {
		return nil
	}
	duplicate, err := c.File()
	if err != nil { // no file descriptor is left
		discard(c.TCPConn)
		return nil
	}
	_ = c.CloseWrite() // if it fails, the client has disconnected
	return duplicate
}

// release closes a socket when the client has received all data, but at the latest when waited reaches most. Then it calls
// closed. waited is the time for which release has already waited. release does not block.
func release(socket *os.File, waited, most time.Duration, closed func()) {
	// Most clients receive the data within a round trip. The intervals double up to a second.
	interval := min(max(waited, 5*time.Millisecond), time.Second)
	time.AfterFunc(interval, func() {
		waited += interval
		if _, unreceived := stateOf(socket); unreceived {
			if waited < most {
				release(socket, waited, most, closed)
				return
			}
			discard(socket)
		}
		_ = socket.Close() // no data is left
		closed()
	})
}

// stateOf returns the state of a socket: discards reports whether the kernel will discard its data when it is closed, and
// unreceived reports whether the client has yet to receive data. A result is false if it is unknown.
func stateOf(socket syscall.Conn) (discards, unreceived bool) {
	control(socket, func(fd int) {
		if linger, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER); err == nil {
			discards = linger.Onoff != 0 && linger.Linger == 0
		}
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			unreceived = info.State != unix.BPF_TCP_CLOSE && (info.Unacked > 0 || info.Notsent_bytes > 0)
		}
	})
	return discards, unreceived
}

// discard makes a socket discard its data when it is closed.
func discard(socket syscall.Conn) {
	control(socket, func(fd int) {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // it cannot fail for a socket
	})
}

// control calls f with the descriptor of a socket, or does nothing if the socket is closed.
func control(socket syscall.Conn, f func(fd int)) {
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // it fails if the socket is closed
	}
}
