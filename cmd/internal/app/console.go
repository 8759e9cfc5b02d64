package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/operate"
	"keypool/cmd/internal/program"
	"keypool/kgs/ledger"
)

// Exit statuses of all commands except audit.
const (
	exitFailed = 1
	// ExitUsage means that a setting, an argument or the witness of a ledger is invalid.
	ExitUsage = 2
)

// Console has the writers for the output of a command.
type Console struct {
	Name        string // name of the program, the prefix of each error
	Out, Errors io.Writer
}

// Run starts a program, waits until ctx ends or the program fails, stops it, and returns the exit status. If standard error is
// closed, or is a pipe that is not read, the program continues and its log drops lines.
func (c Console) Run(ctx context.Context, s config.Common, start func(log *slog.Logger) (*program.Program, error)) int {
	signal.Ignore(syscall.SIGPIPE) // otherwise a write to a closed standard error ends the process
	out := startLines(c.Errors)
	defer out.close()
	log := NewLogger(out, s.LogLevel, cmp.Or(s.LogFormat, defaultFormat(c.Errors)))
	c.Errors = out
	if err := limitMemory(log); err != nil {
		c.Complain(err)
		return ExitUsage
	}
	p, err := start(slog.New(countedLog{log.Handler(), out.dropped}))
	return c.RunUntilDone(ctx, p, err)
}

// RunUntilDone waits until ctx ends or p fails, then stops p and returns the exit status. err is
// the error of the start. If the start failed because ctx ended, the exit status is 0.
func (c Console) RunUntilDone(ctx context.Context, p *program.Program, err error) int {
	if err != nil {
		if ctx.Err() != nil {
			return 0
		}
		return c.Exit(err)
	}
	err = p.Wait(ctx)
	return c.Exit(errors.Join(err, p.Stop()))
}

// Exit prints err and returns the exit status of the program.
func (c Console) Exit(err error) int {
	if err == nil {
		return 0
	}
	c.Complain(err)
	var setting *config.Error
	if errors.As(err, &setting) || errors.Is(err, ledger.ErrWrongSecret) || errors.Is(err, ledger.ErrWitness) {
		return ExitUsage
	}
	return exitFailed
}

// Complain prints an error as one line, even if it joins several errors. It ignores an error of
// the writer because there is no other place to report it.
func (c Console) Complain(err error) {
	_, _ = fmt.Fprintf(c.Errors, "%s: %s\n", c.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
}

// CheckHealth returns an error unless the program at ADMIN_ADDR is ready.
func CheckHealth(ctx context.Context, s config.Common) error {
	if err := operate.CheckHealth(ctx, string(s.AdminAddr)); err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	return nil
}

// NewLogger returns a logger that writes to w. If format is empty, the format is text on a
// terminal and JSON elsewhere.
func NewLogger(w io.Writer, level slog.Level, format string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: durationsAsText}
	if cmp.Or(format, defaultFormat(w)) == "text" {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

func defaultFormat(w io.Writer) string {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return "text"
	}
	return "json"
}

// durationsAsText writes a duration with its unit, such as 10ms. In JSON it would be a number of nanoseconds.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Millisecond).String())
	}
	return a
}
