package server

import (
	"context"
	"io"
	"runtime"

	"github.com/alecthomas/kong"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/version"
	"keypool/shortener"
)

// shortenerFlags is the command line of cmd/shortener.
type shortenerFlags struct {
	config.Server `embed:""`
	Version       kong.VersionFlag `help:"Print program, version and commit."`

	ServeLinks    struct{}    `cmd:"" name:"serve" default:"1" help:"Serve short links. This is the default."`
	MigrateSchema struct{}    `cmd:"" name:"migrate" help:"Migrate the database schema."`
	Audit         auditFlags  `cmd:"" help:"Check that every reserved key is in exactly one place, that is, that the accounts close. Servers may be running. Exit status: 0 if the accounts close, 1 if they do not close, 2 if the audit could not run."`
	Delete        deleteFlags `cmd:"" help:"Turn links into tombstones. Requests for them are answered with 410, and their codes are never used again."`
	Healthcheck   struct{}    `cmd:"" help:"Check that the server at ADMIN_ADDR is ready. This also works in a container without a shell. Exit status: 0 if the server is ready, otherwise 1."`
}

func shortenerCommandLine(out, errors io.Writer) config.Program {
	return config.Program{
		Name: "shortener", Description: "A URL shortener with its own key generation service.",
		Examples: []config.Example{
			{Command: "shortener", Comment: "everything in one process, with a SQLite file in data/"},
			{Command: "DATABASE_URL=postgres://user@host/keypool REDIS_URL=redis://host shortener", Comment: "one of several servers"},
			{Command: "shortener audit --json", Comment: "check that every reserved key is in exactly one place"},
		},
		Version: version.Of("shortener"), KeySources: serverRules().KeySources, Out: out, Errors: errors,
	}
}

// serverRules returns the rules against which the settings of a server are checked.
func serverRules() config.Rules {
	return config.Rules{KeySources: app.KeySources(), Origin: func(text string) (string, bool) {
		origin, ok := shortener.ParseOrigin(text)
		return origin.String(), ok
	}}
}

// Run runs the program shortener until ctx ends, and returns its exit status.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f shortenerFlags
	c := app.Console{Name: "shortener", Out: stdout, Errors: stderr}
	command, err := shortenerCommandLine(stdout, stderr).Parse(&f, args)
	if err != nil {
		c.Complain(err)
		return app.ExitUsage
	}
	switch command {
	case "": // --help or --version
		return 0
	case "migrate":
		return c.Exit(app.MigrateDatabase(ctx, f.Common, stderr))
	case "audit":
		return runAudit(ctx, c, f.Common, f.Audit)
	case "delete <code>":
		return c.Exit(deleteLinks(ctx, f.Common, f.Delete.Codes, stdout))
	case "healthcheck":
		return c.Exit(app.CheckHealth(ctx, f.Common))
	}
	return serve(ctx, c, f.Server)
}

// ballast is the size, in bytes, of memory that the server allocates and never uses. The garbage
// collector runs when the heap has doubled. The heap of the server is so small that without
// ballast the collector would run all the time. With ballast, it runs after about 40 MiB of
// garbage. Unused memory is not resident, although the metrics go_memstats_* count it.
const ballast = 32 << 20

func serve(ctx context.Context, c app.Console, s config.Server) int {
	if err := s.Complete(serverRules()); err != nil {
		return c.Exit(err)
	}
	defer runtime.KeepAlive(make([]byte, ballast))
	p, err := Start(ctx, s, app.NewLogger(c.Errors, s.LogLevel, s.LogFormat))
	return c.RunUntilDone(ctx, p, err)
}
