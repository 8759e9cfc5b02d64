// Command loadtest judges the service from outside: it makes links at a constant rate,
// reads every one back, and says whether the service kept its word; or runs whole scenarios,
// also on servers that it starts itself, and leaves a report. See `loadtest --help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"keypool/cmd/internal/version"
	"keypool/loadtest/schemes"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9/logging"
)

// The exit statuses.
const (
	exitRight    = 0
	exitNotRight = 1 // a guarantee was broken, requests or claims failed, or scenarios were ended early
	exitNotRun   = 2
)

// errNotRight is the error of a command that has printed its verdict, and the verdict
// is bad. What else went wrong is joined to it.
var errNotRight = errors.New("not all right")

// flags is the command line.
type flags struct {
	Version kong.VersionFlag `help:"Print program, version and commit."`

	All     allFlags     `cmd:"" help:"Start everything that the scenarios need, run them, and write a report."`
	Run     runFlags     `cmd:"" help:"Make links on a running service at a constant rate, then read every one back; or run scenarios against it."`
	Check   checkFlags   `cmd:"" help:"Read back every link that the journal of an earlier run says was acknowledged."`
	Compare compareFlags `cmd:"" help:"Set the reports of two runs side by side."`
	Schemes schemesFlags `cmd:"" help:"Set every key scheme side by side, on servers that it starts, and write a report."`
	Bench   benchFlags   `cmd:"" help:"Measure speed, memory and growth beside known things."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run gives the exit status. The verdict goes to stdout, everything else to stderr.
func run(args []string, stdout, stderr io.Writer) int {
	logging.Disable() // what scenarios wait for, and what they take down, is no news
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	// The first signal ends the load; a second one, during the check, ends the program.
	defer context.AfterFunc(ctx, stop)()

	return exitStatus(execute(ctx, args, output{stdout, stderr}), stderr)
}

// exitStatus is that of a command with this error, which is told unless the verdict was all
// of it.
func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return exitRight
	}
	notRight := errors.Is(err, errNotRight)
	if !notRight || err.Error() != errNotRight.Error() {
		_, _ = fmt.Fprintln(stderr, "loadtest:", err) // when that fails nobody is left to tell
	}
	if notRight {
		return exitNotRight
	}
	return exitNotRun
}

func execute(ctx context.Context, args []string, out output) error {
	var f flags
	told := false // --help or --version: Parse goes on, but there is nothing more to do
	parser, err := kong.New(&f,
		kong.Name("loadtest"),
		kong.Description("Judges a URL shortener from outside. Exit status: 0 all right, 1 a guarantee was broken, requests or claims failed, or scenarios were ended early, 2 it could not run."),
		kong.Vars{"version": version.Of("loadtest"), "report": defaultReport, "scenarios": names(whatever), "anywhere": names(anywhere), "rated": names(rated), "timed": names(timed),
			"schemes": strings.Join(schemes.Names(), ", "), "schemesReport": schemesReport},
		kong.Writers(out.stdout, out.stderr),
		kong.Exit(func(int) { told = true }),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	switch {
	case told:
		return nil
	case err != nil:
		return fmt.Errorf("%w; loadtest --help tells all", err)
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return command.Run(out)
}
