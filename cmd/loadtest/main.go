// Command loadtest measures a URL shortener through HTTP and judges it. It runs experiments on servers that it starts
// itself, or on a service that is already running, and writes a report. It also computes capacity plans and simulates
// the supply of keys. See `loadtest --help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9/logging"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/cmd/internal/version"
	"keypool/loadtest/experiments/bars"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// The exit statuses.
const (
	exitPassed = 0
	exitFailed = 1 // the verdict is FAIL or ERROR; an interruption gives ERROR
	exitNotRun = 2 // any other error, such as an invalid flag or a report that cannot be written
)

// errFailed is the error of a command that has printed a verdict other than PASS. The command may join other errors to
// errFailed.
var errFailed = errors.New("failed")

// output contains the standard output and the standard error of the program.
type output struct {
	stdout, stderr io.Writer
}

// flags is the command line.
type flags struct {
	Version kong.VersionFlag `help:"Print the version and the commit."`

	All         allFlags         `cmd:"" help:"Run the load test on servers of its own: create links, drain the pool, stop Redis, fill the space, guess codes."`
	Run         runFlags         `cmd:"" help:"Run experiments against a service that is already running."`
	Experiments experimentsFlags `cmd:"" help:"Run experiments by name, group or suite: fault rows, key sources, the comparison, bars."`
	Compare     compareFlags     `cmd:"" help:"Show the reports of two runs side by side."`
	Plan        planFlags        `cmd:"" help:"Compute how large a deployment must be, without running anything."`
	Figures     figuresFlags     `cmd:"" help:"Compute figures that are often published about URL shorteners, and print docs/figures.md. The working directory must be in the source tree."`
	Simulate    simulateFlags    `cmd:"" help:"Simulate the supply of keys for a day of many servers, on a virtual clock."`
	Baseline    baselineFlags    `cmd:"" hidden:"" help:"Serve the simple handlers with which servers are compared."`
	DurableLog  durableLogFlags  `cmd:"" hidden:"" help:"Serve creations that only append links to a file."`
}

type baselineFlags struct {
	Listen string `required:"" help:"Address to listen on."`
}

// Run serves the baselines, which are simple handlers for comparison, until ctx ends.
func (c *baselineFlags) Run(ctx context.Context) error { return measure.ServeBare(ctx, c.Listen) }

type durableLogFlags struct {
	Listen string `required:"" help:"Address to listen on."`
	File   string `required:"" help:"File to which links are appended."`
}

// Run serves creations until ctx ends.
func (c *durableLogFlags) Run(ctx context.Context) error {
	return bars.ServeDurableLog(ctx, c.Listen, c.File)
}

type compareFlags struct {
	A string `arg:"" help:"The report.json of one run."`
	B string `arg:"" help:"The report.json of another run."`
}

// Run prints the comparison. The exit status is 0 even if outcomes differ, because a difference is a result and not a
// failure.
func (c *compareFlags) Run(out output) error {
	a, errA := readReport(c.A)
	b, errB := readReport(c.B)
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	return report.Compare(out.stdout, a, b)
}

func readReport(path string) (*report.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // this program only reads the file
	r, err := report.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func main() { os.Exit(run(program.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the command and returns the exit status. The verdict goes to stdout, and everything else goes to stderr. If
// ctx ends, run ends the experiment in progress and cleans up.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	logging.Disable() // go-redis would log each outage of Redis that an experiment causes
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// The system sends SIGPIPE for a broken pipe, such as `loadtest all | head`, and for a connection to a server that
	// an experiment has killed. After a broken pipe, the run must clean up and end. A connection to a killed server must
	// not end the run.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // without a handler, a broken pipe ends the process at once
	return exitStatus(execute(ctx, args, output{required{stdout, stop}, required{stderr, stop}}), stderr)
}

// required is an output that a run needs. If a write to it fails, the run ends.
type required struct {
	io.Writer
	end func()
}

func (w required) Write(text []byte) (int, error) {
	n, err := w.Writer.Write(text)
	if err != nil {
		w.end()
	}
	return n, err
}

// exitStatus returns the exit status for the error of a command, and prints the error. If the error is only errFailed,
// it prints nothing, because the command has already printed the verdict.
func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return exitPassed
	}
	failed := errors.Is(err, errFailed)
	if !failed || err.Error() != errFailed.Error() {
		_, _ = fmt.Fprintln(stderr, "loadtest:", err) // a failure of this write cannot be reported
	}
	if failed {
		return exitFailed
	}
	return exitNotRun
}

func execute(ctx context.Context, args []string, out output) error {
	var f flags
	printed := false // whether --help or --version was printed; Parse then continues, but there is nothing more to do
	parser, err := kong.New(&f, append(planMappers(),
		kong.Name("loadtest"),
		kong.Description(`Measures a URL shortener through HTTP and judges it.

Exit status: 0 passed; 1 the verdict is FAIL or ERROR; 2 any other error, such as an invalid flag or a report that cannot be written.

Examples:
  loadtest all --only=drain
  loadtest run --target http://localhost:8080 --rate 500 --duration 30s
  loadtest experiments fault/10 keysource --controls --scale 0.1
  loadtest plan --creations 50000 --years 10 --servers 200
  loadtest simulate --servers 1000 --outage 5m --deploy 10m`),
		kong.Vars{"version": version.Of("loadtest")},
		kong.Writers(out.stdout, out.stderr),
		kong.Exit(func(int) { printed = true }),
	)...)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	refused := (*config.Error)(nil)
	switch {
	case printed:
		return nil
	case errors.As(err, &refused):
		return refused // without kong's prefix, because the error itself names the flag
	case err != nil:
		return fmt.Errorf("%w; see loadtest --help", err)
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return command.Run(out)
}
