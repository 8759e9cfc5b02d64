// Command shortener serves short links. See `shortener --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"keypool/cmd/internal/server"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	return server.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
