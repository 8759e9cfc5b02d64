package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"keypool/kgs/ledger"

	"github.com/alecthomas/kong"
)

// console is what a command talks to.
type console struct {
	name        string // of the program, before each error
	out, errors io.Writer
}

// shortenerFlags is the command line of cmd/shortener.
type shortenerFlags struct {
	ServeFlags `embed:""`
	Flags      `embed:""`
	Version    kong.VersionFlag `help:"Print the commit that this was built from."`

	Serve       struct{}    `cmd:"" default:"1" help:"Serve short links; what happens when no command is given."`
	Migrate     struct{}    `cmd:"" help:"Bring the database schema up to date."`
	Audit       AuditFlags  `cmd:"" help:"Close the accounts of every key: exit 0 they close, 1 they do not, 2 could not run. Servers may be running."`
	Delete      DeleteFlags `cmd:"" help:"Turn links into tombstones: 410 from then on, their codes are never used again."`
	Healthcheck struct{}    `cmd:"" hidden:"" help:"Ask the server of ADMIN_ADDR whether it is ready; for images without a shell."`
}

// Shortener runs the program shortener and gives its exit status.
func Shortener(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	var f shortenerFlags
	c := console{"shortener", stdout, stderr}
	command, done := c.parse(&f, "A URL shortener with its own key generation service.", version, args)
	if done != nil {
		return *done
	}
	switch command {
	case "migrate":
		return c.exit(migrateDatabase(ctx, f.Flags, stderr))
	case "audit":
		return runAudit(ctx, c, f.Flags, f.Audit)
	case "delete <code>":
		return c.exit(deleteLinks(ctx, f.Flags, f.Delete, stdout))
	case "healthcheck":
		return c.exit(checkHealth(ctx, f.AdminAddr))
	}
	return c.serve(ctx, f.Flags, f.ServeFlags)
}

// kgsFlags is the command line of cmd/kgs.
type kgsFlags struct {
	KGSFlags `embed:""`
	Flags    `embed:""`
	Version  kong.VersionFlag `help:"Print the commit that this was built from."`

	Work        struct{} `cmd:"" default:"1" help:"Keep the Redis pool filled, serve keys to other programs, or both; what happens when no command is given."`
	Healthcheck struct{} `cmd:"" hidden:"" help:"Ask the worker of ADMIN_ADDR whether it is ready; for images without a shell."`
}

// KGS runs the program kgs, refill worker and key service, and gives its exit status.
func KGS(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	var f kgsFlags
	c := console{"kgs", stdout, stderr}
	command, done := c.parse(&f, "The refill worker of a URL shortener's key pool, and its keys for other programs.", version, args)
	if done != nil {
		return *done
	}
	if command == "healthcheck" {
		return c.exit(checkHealth(ctx, f.AdminAddr))
	}
	return c.work(ctx, f.Flags, f.KGSFlags)
}

// parse reads the command line. done is the exit status when that was all.
func (c console) parse(flags any, about, version string, args []string) (command string, done *int) {
	parser, err := kong.New(flags, kong.Name(c.name), kong.Description(about), kong.Writers(c.out, c.errors),
		kong.Vars{"version": version, "key_sources": either(keySourceNames()...)}, kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		// --help and --version end here; Parse goes on, but nobody looks at its result.
		kong.Exit(func(status int) { done = &status }))
	if err != nil {
		panic(err) // the tags of the flag structs are wrong
	}
	ctx, err := parser.Parse(args)
	if done != nil {
		return "", done
	}
	if err != nil {
		usage := 2
		c.complain(fmt.Errorf("%w; %s --help tells all", err, c.name))
		return "", &usage
	}
	return ctx.Command(), nil
}

// ballast is memory, in bytes, that the server asks for and never touches. The garbage
// collector runs when the heap has doubled, and the server's is so small that it would do
// little else: with ballast it runs when there are some 40 MiB to collect. What is never
// touched is not resident, though go_memstats_* count it.
const ballast = 32 << 20

func (c console) serve(ctx context.Context, common Flags, flags ServeFlags) int {
	s, err := flags.Parse(common)
	if err != nil {
		return c.exit(err)
	}
	defer runtime.KeepAlive(make([]byte, ballast))
	p, err := StartServer(ctx, s, newLogger(c.errors, s.LogLevel, s.LogFormat))
	return c.runUntilDone(ctx, p, err)
}

func (c console) work(ctx context.Context, common Flags, flags KGSFlags) int {
	s, err := flags.Parse(common)
	if err != nil {
		return c.exit(err)
	}
	p, err := StartKGS(ctx, s, newLogger(c.errors, s.LogLevel, s.LogFormat))
	return c.runUntilDone(ctx, p, err)
}

// runUntilDone waits for a signal or a failure, then stops in order. A signal that
// came during the start is an orderly stop too.
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

// exit gives the status that a program ends with, after saying why: 2 for a setting
// that cannot be taken, be it by this ledger, 1 for whatever else went wrong.
func (c console) exit(err error) int {
	if err == nil {
		return 0
	}
	c.complain(err)
	var setting *SettingError
	if errors.As(err, &setting) || errors.Is(err, ledger.ErrWrongSecret) {
		return 2
	}
	return 1
}

// complain writes one line, of however many errors; when that fails there is nobody left to
// tell.
func (c console) complain(err error) {
	_, _ = fmt.Fprintf(c.errors, "%s: %s\n", c.name, strings.ReplaceAll(err.Error(), "\n", "; "))
}
