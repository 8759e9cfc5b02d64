package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/operate"
	"keypool/kgs/ledger"
)

// The exit statuses of the programs, but for audit.
const (
	exitFailed = 1
	exitUsage  = 2 // a setting or an argument that the program cannot take
)

// console is where a command writes to.
type console struct {
	name        string // of the program; prefixes each error
	out, errors io.Writer
}

// runUntilDone waits for the end of ctx or a failure, and then stops p. err is the result of the
// start; when ctx ended during the start, that is an orderly stop.
func (c console) runUntilDone(ctx context.Context, p *Program, err error) int {
	if err != nil {
		if ctx.Err() != nil {
			return 0
		}
		return c.exit(err)
	}
	err = p.Wait(ctx)
	return c.exit(errors.Join(err, p.Stop()))
}

// exit prints err and returns the exit status of the program.
func (c console) exit(err error) int {
	if err == nil {
		return 0
	}
	c.complain(err)
	var setting *config.Error
	if errors.As(err, &setting) || errors.Is(err, ledger.ErrWrongSecret) {
		return exitUsage
	}
	return exitFailed
}

// complain prints an error, also a joined one, as one line. An error of the writer is dropped:
// there is no other place to report it.
func (c console) complain(err error) {
	_, _ = fmt.Fprintf(c.errors, "%s: %s\n", c.name, strings.ReplaceAll(err.Error(), "\n", "; "))
}

func checkHealth(ctx context.Context, s config.Common) error {
	if err := operate.CheckHealth(ctx, string(s.AdminAddr)); err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	return nil
}
