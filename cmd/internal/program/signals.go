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
// orderly stop. If the program was started with nohup, SIGHUP has no effect, so the program survives a logout.
func UntilSignal() context.Context {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() { time.AfterFunc(signalGrace, stop) })
	return ctx
}
