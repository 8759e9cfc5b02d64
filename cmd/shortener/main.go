// Command shortener serves short links. See `shortener --help`.
package main

import (
	"os"

	"keypool/cmd/internal/program"
	"keypool/cmd/internal/server"
)

func main() { os.Exit(server.Run(program.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr)) }
