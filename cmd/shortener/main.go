// Command shortener serves short links; see `shortener --help`.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.Shortener(ctx, version, os.Args[1:], os.Stdout, os.Stderr)
}
