package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"keypool/cmd/internal/version"
	"keypool/loadtest/bench"
	"keypool/loadtest/report"
)

// benchFlags are the commands that measure the bars of speed, memory and growth.
type benchFlags struct {
	Run  benchRun  `cmd:"" default:"withargs" help:"Measure every bar beside its baseline, and say which hold. Exit status: 0 measured, also when a bar does not hold; 2 a figure could not be had."`
	Bare benchBare `cmd:"" hidden:"" help:"Serve the bare handlers that servers are compared with."`
}

type benchBare struct {
	Listen string `required:"" help:"Address to listen on."`
}

// Run serves until ctx ends.
func (c *benchBare) Run(ctx context.Context) error { return bench.ServeBare(ctx, c.Listen) }

type benchRun struct {
	Programs string        `default:"bin" placeholder:"DIR" help:"Where the built programs are."`
	Only     []string      `placeholder:"GROUP" help:"Measure only these groups, comma-separated; a name that there is not gets a list."`
	Rounds   int           `default:"3" help:"How often each is measured, one after the other in each round."`
	Each     time.Duration `default:"4s" help:"How long each is measured in a round."`
	Full     bool          `help:"100,000,000 keys and links, where it is 20 and 10 million else. Takes an hour and 50 GB of disk."`
	Markdown string        `placeholder:"FILE" help:"Write the table as Markdown to this file."`
}

// Run measures and prints the table.
func (c *benchRun) Run(ctx context.Context, out output) error {
	started := time.Now()
	bars, err := bench.Run(ctx, bench.Options{
		Programs: c.Programs, Only: c.Only, Rounds: c.Rounds, Each: c.Each, Full: c.Full,
		Log: func(line string) {
			// A line that cannot be written is no reason to end the run.
			_, _ = fmt.Fprintf(out.stderr, "%5.0fs  %s\n", time.Since(started).Seconds(), line)
		},
	})
	err = errors.Join(err, bench.WriteText(out.stdout, bars))
	if c.Markdown == "" || len(bars) == 0 {
		return err
	}
	return errors.Join(err, c.writeMarkdown(ctx, started, bars))
}

func (c *benchRun) writeMarkdown(ctx context.Context, started time.Time, bars []bench.Bar) error {
	heading := bench.Heading{
		Date: started.Format(time.DateOnly), Machine: report.ThisMachine(ctx).String(), Commit: version.Number(), Command: c.command(), Rounds: c.Rounds,
	}
	return writeFile(c.Markdown, func(f *os.File) error { return bench.WriteMarkdown(f, heading, bars) })
}

// command is what to type for the same again.
func (c *benchRun) command() string {
	words := []string{"make bench"}
	if c.Full {
		words = append(words, "FULL=1")
	}
	if len(c.Only) > 0 {
		words = append(words, "ONLY="+strings.Join(c.Only, ","))
	}
	return strings.Join(words, " ")
}
