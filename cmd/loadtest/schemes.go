package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"keypool/loadtest/report"
	"keypool/loadtest/scenario"
	"keypool/loadtest/schemes"
)

type schemesFlags struct {
	Only     []string      `placeholder:"NAME,..." help:"Only these: ${schemes}."`
	Rounds   int           `default:"3" help:"How often each scheme is timed, one after the other in each round."`
	Each     time.Duration `default:"2s" help:"How long each is timed in a round, by either load."`
	Report   string        `placeholder:"DIR" default:"${schemesReport}" help:"Where index.html and report.json go."`
	Markdown string        `placeholder:"FILE" help:"Write the tables as Markdown to this file."`
	Programs string        `placeholder:"DIR" help:"Where the programs are; beside this one when not given."`
	JSON     bool          `name:"json" help:"Print how far it is, and the verdicts, as a line of JSON each."`
}

// schemesReport is where the report of the schemes goes unless it is told otherwise.
const schemesReport = defaultReport + "/schemes"

// Run sets the schemes side by side. Ctrl-C ends the part that is under way, and what ran is
// reported.
func (c *schemesFlags) Run(ctx context.Context, out output) (err error) {
	if c.Programs, err = programs(c.Programs); err != nil {
		return err
	}
	comparison, err := schemes.New(schemes.Options{Programs: c.Programs, Only: c.Only, Rounds: c.Rounds, Each: c.Each})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, comparison.Close()) }()
	scenarios := comparison.Scenarios()
	h := &harness{
		scenarios: scenarios, dir: c.Report, view: newView(out, c.JSON, scenarios), run: scenario.Run{Programs: c.Programs},
		about: report.Report{Title: "Keypool: ways to get codes", Lead: schemesLead, Words: append(schemesWords(), schemes.Titles()...)},
	}
	h.done = func(r *report.Report) error { return c.tables(out, r) }
	return h.execute(ctx)
}

// tables prints the last tables, which sum up the run, and writes all of them as Markdown
// when that is asked for.
func (c *schemesFlags) tables(out output, r *report.Report) error {
	if last := len(r.Scenarios) - 1; last >= 0 && !c.JSON {
		for _, t := range r.Scenarios[last].Tables {
			if err := errors.Join(t.WriteText(out.stdout), newLine(out.stdout)); err != nil {
				return err
			}
		}
	}
	if c.Markdown == "" {
		return nil
	}
	return writeFile(c.Markdown, func(f *os.File) error { return report.Markdown(f, r) })
}

func newLine(w io.Writer) error {
	_, err := fmt.Fprintln(w)
	return err
}

const schemesLead = "Every URL shortener has to get unique codes from somewhere. Here each usual way runs as the same server program with another " +
	"KEY_SOURCE, under the same load, on the same machine, one after the other in each round. What is said of a scheme is a figure of this run."

func schemesWords() []report.Word {
	return []report.Word{
		{Word: "Scheme", Says: "A way to get codes: a KEY_SOURCE with its settings."},
		{Word: "Supply", Says: "Whom a scheme's keys come from. A call is one round trip to it."},
		{Word: "KGS", Says: "A key generation service: it makes keys ahead of use, so that nobody waits for one."},
		{Word: "INCR", Says: "One counter in Redis. Each creation asks for the next number, and the number is the code."},
		{Word: "Tickets", Says: "Two databases that count, one the odd numbers and one the even ones."},
		{Word: "Snowflake", Says: "The time in milliseconds, the id of the machine and a sequence, as one number."},
		{Word: "Fallback", Says: "Random codes, tried until one is free, when a scheme gives nothing. Off here unless it says so."},
		{Word: "p99", Says: "99 of 100 creations took no longer. Counted from when one was due, also if it could not be sent on time."},
	}
}
