package server

import (
	"context"
	"io"
	"log/slog"

	"github.com/alecthomas/kong"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/cmd/internal/version"
	"keypool/shortener/destination"
)

// shortenerFlags is the command line of cmd/shortener.
type shortenerFlags struct {
	config.Server `embed:""`
	Version       kong.VersionFlag `help:"Print program, version and commit."`

	ServeLinks    struct{}      `cmd:"" name:"serve" default:"1" help:"Serve short links. This is the default."`
	MigrateSchema migrateFlags  `cmd:"" name:"migrate" help:"Migrate the database schema, and move links that are in the tables of an older schema."`
	Reindex       reindexFlags  `cmd:"" help:"Reorder the links in the database. The new order is that of the codes of the present KEY_SOURCE. Use it with --replace-secret after KGS_SECRET was lost. Also use it when KEY_SOURCE changed between {redis-incr, ticket} and the other key sources, in either direction. Stop all programs first. If the command is killed, run it again; it then continues."`
	Audit         auditFlags    `cmd:"" help:"Check that every reserved number is in exactly one place, that is, that the accounts close. Servers may be running. Exit status: 0 if the accounts close, 1 if they do not close, 2 if the audit could not run."`
	Explain       explainFlags  `cmd:"" help:"Explain a code: its key source, its number and range, its batch and server as far as they are recorded, and its link. Servers may be running. Exit status: 0 even if no link has the code, 1 if the database failed, 2 if the argument cannot be a code."`
	Restored      struct{}      `cmd:"" help:"Record that the database was restored from a backup. The next start of a program then skips the numbers that may have been issued after the backup, so that their codes are not issued again. Run the command after each restore, before programs start. The command does not move the counters of ticket and redis-incr."`
	Delete        deleteFlags   `cmd:"" help:"Turn links into tombstones. Requests for them are answered with 410, and their codes are never used again."`
	Import        importFlags   `cmd:"" help:"Import links from a file of this program or of another service. Servers may be running. Exit status: 0 if every link was imported or is in the database already, 1 if links were refused. Standard error has the line number of each refused link and the reason. The command may be repeated, even after it was killed."`
	Export        exportFlags   `cmd:"" help:"Export all links, also deleted ones, with their owners, details and times of deletion. Servers may be running."`
	Token         tokenCommands `cmd:"" help:"Manage API tokens. Servers may be running."`
	Healthcheck   struct{}      `cmd:"" help:"Check that the server at ADMIN_ADDR is ready. This also works in a container without a shell. Exit status: 0 if the server is ready, otherwise 1."`
}

func shortenerCommandLine(out, errors io.Writer) config.Program {
	return config.Program{
		Name: "shortener", Description: "A URL shortener with its own key generation service.",
		Examples: []config.Example{
			{Command: "shortener", Comment: "everything in one process, with a SQLite file in data/"},
			{Command: "DATABASE_URL=postgres://user@host/keypool REDIS_URL=redis://host shortener", Comment: "one of several servers"},
			{Command: "shortener token create --name=ci --scope=create,read --rate=100/s", Comment: "a token for the header Authorization: Bearer TOKEN"},
			{Command: "shortener import --from=yourls --dry-run links.csv", Comment: "check the export of another service before its import"},
			{Command: "shortener audit --json", Comment: "check that every reserved number is in exactly one place"},
		},
		Version: version.Of("shortener"), KeySources: serverRules().KeySources, Out: out, Errors: errors,
	}
}

// serverRules returns the rules against which the settings of a server are checked.
func serverRules() config.Rules {
	return config.Rules{
		KeySources: app.KeySources(),
		Origin: func(text string) (string, bool) {
			origin, ok := destination.ParseOrigin(text)
			return origin.String(), ok
		},
		Host: func(text string) bool { return new(destination.Hosts).Add(text) },
		URL:  destination.Normal,
	}
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
		return c.Exit(migrate(ctx, f.Server, f.MigrateSchema, stderr))
	case "reindex":
		return c.Exit(reindex(ctx, f.Server, f.Reindex, stderr))
	case "audit":
		return runAudit(ctx, c, f.Server, f.Audit)
	case "explain <code>":
		return c.Exit(explainCode(ctx, f.Server, f.Explain, stdout))
	case "restored":
		return c.Exit(recordRestore(ctx, f.Server, stdout))
	case "delete <code>":
		return c.Exit(deleteLinks(ctx, f.Server, f.Delete, stdout))
	case "import <file>":
		return c.Exit(importLinks(ctx, f.Server, f.Import, stdout, stderr))
	case "export", "export <file>":
		return c.Exit(exportLinks(ctx, f.Server, f.Export, stdout, stderr))
	case "token create", "token list", "token renew <id>", "token revoke <id>":
		return c.Exit(manageTokens(ctx, f.Server, command, f.Token, stdout))
	case "healthcheck":
		return c.Exit(app.CheckHealth(ctx, f.Common))
	}
	return serve(ctx, c, f.Server)
}

func serve(ctx context.Context, c app.Console, s config.Server) int {
	if err := s.Complete(serverRules()); err != nil {
		return c.Exit(err)
	}
	defer keepHeadroom()()
	return c.Run(ctx, s.Common, func(log *slog.Logger) (*program.Program, error) { return Start(ctx, s, log) })
}
