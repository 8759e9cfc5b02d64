package program

import (
	"errors"
	"net"
	"syscall"
)

const (
	// sendBuffer and receiveBuffer are the sizes of the buffers that the kernel has for a connection, in bytes. The kernel
	// reserves twice as much, for its own records. If no size were set, a buffer would grow up to 4 MiB (net.ipv4.tcp_wmem)
	// while the client sends requests and reads no answer. A connection transfers at most about one buffer per round trip.
	sendBuffer    = 16 << 10
	receiveBuffer = 32 << 10
	// SocketMemory is the maximum number of bytes in the buffers that the kernel has for a connection. The buffers
	// reach this maximum if the client sends requests and reads no answer. The send buffer can exceed its size by one
	// packet. With generic segmentation offload, a packet in this buffer has up to 64 KiB. A control group (version 2)
	// counts all these bytes as memory of the process.
	SocketMemory = 2*sendBuffer + 64<<10 + 2*receiveBuffer
)

// listenConfig returns the configuration of all listeners. Accepted connections inherit the buffers of the listener, so the
// sizes also apply to a connection that waits in the backlog. Multipath TCP is off, because each of its paths has buffers
// of its own.
func listenConfig() *net.ListenConfig {
	c := &net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var sendErr, receiveErr error
		err := socket.Control(func(fd uintptr) {
			sendErr = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
			receiveErr = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBuffer)
		})
		return errors.Join(err, sendErr, receiveErr)
	}}
	c.SetMultipathTCP(false)
	return c
}
