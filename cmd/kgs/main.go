// Command kgs fills the Redis pool, serves keys to other programs, or both; see `kgs --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"keypool/cmd/internal/app"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	return app.KGS(ctx, version, os.Args[1:], os.Stdout, os.Stderr)
}
