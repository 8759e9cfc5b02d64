package program

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signalGrace is the time after the first signal in which further signals have no effect. A supervisor may send one
// signal to the program and another to its process group at the same time, as timeout(1) does.
const signalGrace = time.Second

// UntilSignal returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. The program should then stop. A
// further signal that arrives more than signalGrace after the first signal ends the program immediately, without an
// orderly stop.
func UntilSignal() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, func() { time.AfterFunc(signalGrace, stop) })
	return ctx
}
