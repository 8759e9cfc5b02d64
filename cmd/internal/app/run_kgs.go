package app

import (
	"context"
	"io"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/version"

	"github.com/alecthomas/kong"
)

// kgsFlags is the command line of cmd/kgs.
type kgsFlags struct {
	config.KGS `embed:""`
	Version    kong.VersionFlag `help:"Print program, version and commit."`

	Work        struct{} `cmd:"" default:"1" help:"Keep the Redis pool filled, serve keys to other programs, or both; the default."`
	Healthcheck struct{} `cmd:"" help:"Check that the program at ADMIN_ADDR is ready. Exit status: 0 ready, 1 not; for images without a shell."`
}

func kgsCommandLine(out, errors io.Writer) config.Program {
	return config.Program{
		Name: "kgs", Description: "The key generation service of the shortener. It fills the Redis pool, serves keys to\nother programs, or both.",
		Examples: []config.Example{
			{Command: "DATABASE_URL=postgres://user@host/keypool REDIS_URL=redis://host kgs", Comment: "a refill worker"},
			{Command: "KGS_TOKENS=billing=0123456789abcdef kgs --kgs-listen-addr=:8082", Comment: "keys for another program, over gRPC and HTTP"},
		},
		Version: version.Of("kgs"), Out: out, Errors: errors,
	}
}

// KGS runs the program kgs until ctx ends, and returns its exit status.
func KGS(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f kgsFlags
	c := Console{"kgs", stdout, stderr}
	command, err := kgsCommandLine(stdout, stderr).Parse(&f, args)
	if err != nil {
		c.Complain(err)
		return ExitUsage
	}
	switch command {
	case "": // --help or --version
		return 0
	case "healthcheck":
		return c.Exit(CheckHealth(ctx, f.Common))
	}
	if err := f.Complete(); err != nil {
		return c.Exit(err)
	}
	p, err := StartKGS(ctx, f.KGS, NewLogger(stderr, f.LogLevel, f.LogFormat))
	return c.RunUntilDone(ctx, p, err)
}
