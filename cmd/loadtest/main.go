// Command loadtest judges the service from outside: it creates links at a constant rate and
// reads every one back, or runs experiments on servers that it starts itself and leaves a
// report. See `loadtest --help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"keypool/cmd/internal/version"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9/logging"
)

// The exit statuses.
const (
	exitPassed = 0
	exitFailed = 1 // a guarantee is broken, requests or claims failed, or the run was ended early
	exitNotRun = 2
)

// errFailed is the error of a command that has printed its verdict, and the verdict is that
// something failed. Other errors are joined to it.
var errFailed = errors.New("failed")

// flags is the command line.
type flags struct {
	Version kong.VersionFlag `help:"Print the version and the commit."`

	All         loadTestFlags    `cmd:"" help:"Run the load test: start all servers, create, drain, cut off Redis, fill the space, guess codes; write a report."`
	Run         runFlags         `cmd:"" help:"Create links on a running service at a constant rate, then read every one back; or run experiments against it."`
	Check       checkFlags       `cmd:"" help:"Read back every link that the journal of an earlier run acknowledges."`
	Experiments experimentsFlags `cmd:"" help:"Run experiments by name, group or suite: fault rows, key sources, the comparison, bars."`
	Compare     compareFlags     `cmd:"" help:"Show the reports of two runs side by side."`
	Baseline    baselineFlags    `cmd:"" hidden:"" help:"Serve a bare handler that servers are measured against."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit status. The verdict goes to stdout, everything else to stderr.
func run(args []string, stdout, stderr io.Writer) int {
	logging.Disable() // experiments take Redis down on purpose, which go-redis would log
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	// The first signal ends the load; a second one, during the check, ends the program.
	defer context.AfterFunc(ctx, stop)()
	return exitStatus(execute(ctx, args, output{stdout, stderr}), stderr)
}

// exitStatus returns the status for the error of a command, and prints the error unless it
// says no more than the verdict.
func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return exitPassed
	}
	failed := errors.Is(err, errFailed)
	if !failed || err.Error() != errFailed.Error() {
		_, _ = fmt.Fprintln(stderr, "loadtest:", err) // a failure to write it has no other place to go
	}
	if failed {
		return exitFailed
	}
	return exitNotRun
}

func execute(ctx context.Context, args []string, out output) error {
	var f flags
	printed := false // --help or --version: Parse goes on, but there is nothing more to do
	parser, err := kong.New(&f,
		kong.Name("loadtest"),
		kong.Description(`Judges a URL shortener from outside.

Exit status: 0 passed; 1 a guarantee is broken, requests or claims failed, or the run was ended early; 2 it could not run.

Examples:
  loadtest all --only=drain
  loadtest run --target http://localhost:8080 --rate 500 --duration 30s
  loadtest experiments fault/10 keysource --controls --scale 0.1`),
		kong.Vars{"version": version.Of("loadtest"), "report": defaultReport},
		kong.Writers(out.stdout, out.stderr),
		kong.Exit(func(int) { printed = true }),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	switch {
	case printed:
		return nil
	case err != nil:
		return fmt.Errorf("%w; see loadtest --help", err)
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return command.Run(out)
}
