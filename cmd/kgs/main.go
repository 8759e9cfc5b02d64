// Command kgs fills the Redis pool, serves keys to other programs, or both. See `kgs --help`.
package main

import (
	"os"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/program"
	"keypool/kgs/keyserver/reflection"
)

func main() {
	os.Exit(app.KGS(program.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr, reflection.Handle))
}
