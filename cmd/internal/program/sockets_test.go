package program

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"keypool/cmd/internal/config"
)

// A client that sends without pause and reads nothing can fill both buffers of a connection. The buffers must not grow,
// even if both ends have read much data at full speed before.
func TestKernelBuffersOfAConnectionAreBounded(t *testing.T) {
	t.Parallel()
	const fast = 4 << 20 // bytes that each end reads before it stops
	p, err := Start(t.Context(), "127.0.0.1:0", &Address{"LISTEN_ADDR", config.Address("127.0.0.1:0")},
		slog.New(slog.DiscardHandler), func(context.Context, *Program) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	server, err := p.public.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	transfer(t, server, client, fast)
	transfer(t, client, server, fast)
	fill(t, server)
	fill(t, client)
	raw, err := server.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		unsent, sendErr := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		unread, receiveErr := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		if err := errors.Join(sendErr, receiveErr); err != nil {
			t.Error(err)
		}
		if unsent == 0 || unread == 0 || unsent+unread > SocketMemory {
			t.Errorf("the kernel has %d unsent and %d unread bytes, want more than 0 of each, and at most %d together", unsent, unread, SocketMemory)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// transfer sends n bytes.
func transfer(t *testing.T, from, to net.Conn, n int64) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(make([]byte, n))
		sent <- err
	}()
	_, err := io.CopyN(io.Discard, to, n)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
}

// fill writes until the buffers of the kernel are full.
func fill(t *testing.T, conn net.Conn) {
	t.Helper()
	var err error
	for err == nil {
		if err := conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err = conn.Write(make([]byte, 54<<10))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}
