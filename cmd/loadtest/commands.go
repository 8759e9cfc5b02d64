package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/scenario"
	"keypool/loadtest/testbed"
)

// service is what every command is told about the service that it judges.
type service struct {
	Target  string        `required:"" placeholder:"URL" help:"The service, such as http://localhost:8080."`
	Timeout time.Duration `default:"10s" help:"When to give up on a request. Not for scenarios."`
	Yes     bool          `help:"Go ahead although the target is not this machine."`
	JSON    bool          `name:"json" help:"Print the verdict as JSON; of scenarios, also how far they are."`
}

// maxRate is far beyond what one sender can keep up with, in links per second.
const maxRate = 1_000_000

type runFlags struct {
	service
	Rate     float64       `default:"1000" help:"Links per second; of the scenario mix, redirects per second."`
	Duration time.Duration `default:"60s" help:"How long links are made; of a scenario, its steady part."`
	InFlight int           `default:"4000" help:"Requests at a time; what is due beyond them counts as failed. Not for scenarios."`
	Journal  string        `placeholder:"FILE" help:"Write down each creation in this new file. Not for scenarios."`

	Scenario []string `placeholder:"NAME,..." help:"Instead of the load alone, run these scenarios against the target and write a report: ${anywhere}."`
	Admin    string   `placeholder:"URL" help:"The admin listener of one server of the target, for what the pool holds. For scenarios."`
	Climb    bool     `help:"In the scenarios, go on faster and faster until the target no longer keeps up."`
	Report   string   `placeholder:"DIR" default:"${report}" help:"Where the report of the scenarios goes."`
}

// Run makes the load, then checks. Ctrl-C ends the load, and what was made is checked.
func (c *runFlags) Run(ctx context.Context, out output) error {
	if !(c.Rate > 0 && c.Rate <= maxRate) || c.Duration <= 0 || c.InFlight <= 0 {
		return fmt.Errorf("--rate, --duration and --in-flight must be above 0, and the rate not over %d", maxRate)
	}
	if len(c.Scenario) == 0 && (c.Admin != "" || c.Climb || c.Report != defaultReport) {
		return errors.New("--admin, --climb and --report are for scenarios, which --scenario names")
	}
	client, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if len(c.Scenario) == 0 {
		return c.load(ctx, client, out)
	}
	return c.runScenarios(ctx, out)
}

func (c *runFlags) runScenarios(ctx context.Context, out output) error {
	if c.Timeout != loadtest.DefaultTimeout || c.InFlight != loadtest.DefaultInFlight || c.Journal != "" {
		return errors.New("--timeout, --in-flight and --journal are not for scenarios, which have their own")
	}
	scenarios, err := choose(c.Scenario, anywhere)
	if err != nil {
		return err
	}
	if err := c.askAdmin(ctx); err != nil {
		return err
	}
	h := &harness{
		scenarios: scenarios, dir: c.Report, view: newView(out, c.JSON, scenarios),
		run: scenario.Run{Target: c.Target, Admin: c.Admin, Climb: c.Climb, Rate: c.Rate, Duration: c.Duration},
	}
	return h.execute(ctx)
}

// askAdmin fails when nobody answers at the admin listener, if one is named: what the pool
// holds would be missing from the report, and nobody would say why.
func (c *runFlags) askAdmin(ctx context.Context) error {
	if c.Admin == "" {
		return nil
	}
	if _, err := parseService("--admin", c.Admin); err != nil {
		return err
	}
	c.Admin = strings.TrimSuffix(c.Admin, "/")
	if _, err := testbed.AskStatus(ctx, c.Admin); err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	return nil
}

// load is one steady load and its verdict.
func (c *runFlags) load(ctx context.Context, client *loadtest.Client, out output) (err error) {
	journal, err := loadtest.CreateJournal(c.Journal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()

	recorder := loadtest.NewRecorder()
	stop := out.everySecond(func() string { return progress(recorder.Figures()) })
	err = loadtest.NewLoad(client, journal, c.InFlight).
		Run(ctx, loadtest.Schedule{Rate: c.Rate, Duration: c.Duration}, recorder)
	stop()
	if err != nil {
		return err
	}
	return c.judge(context.WithoutCancel(ctx), client, journal.Entries(), recorder.Figures(), out)
}

type checkFlags struct {
	service
	Journal string `arg:"" help:"What an earlier run wrote with --journal."`
}

// Run reads back what the journal promises; nothing is created.
func (c *checkFlags) Run(ctx context.Context, out output) error {
	file, err := os.Open(c.Journal)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // nothing was written to it
	entries, err := loadtest.ReadJournal(file)
	if err != nil {
		return err
	}
	client, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return c.judge(ctx, client, entries, loadtest.Count(entries), out)
}

// connect makes a client of the target, if that may be loaded and is well.
func (s *service) connect(ctx context.Context) (*loadtest.Client, error) {
	target, err := parseService("--target", s.Target)
	if err != nil {
		return nil, err
	}
	if !s.Yes && !loopback(target.Hostname()) {
		return nil, fmt.Errorf("%s is not this machine; to load it all the same, say --yes", target.Host)
	}
	client := loadtest.NewClient(s.Target, s.Timeout)
	if err := client.Healthy(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("the target is not well: %w", err)
	}
	return client, nil
}

// judge reads the links back and prints the verdict.
func (s *service) judge(ctx context.Context, client *loadtest.Client, entries []loadtest.Entry, figures loadtest.Figures, out output) error {
	var checked atomic.Int64
	stop := out.everySecond(func() string {
		return fmt.Sprintf("read back %d of %d", checked.Load(), figures.Acknowledged)
	})
	checker := loadtest.Checker{Client: client, Progress: checked.Store}
	findings, err := checker.Check(ctx, entries)
	stop()
	if err != nil {
		return err
	}
	verdict := loadtest.Verdict{Figures: figures, Findings: findings}
	if s.JSON {
		err = json.NewEncoder(out.stdout).Encode(verdict)
	} else {
		err = verdict.WriteText(out.stdout)
	}
	if err == nil && !verdict.Right() {
		return errNotRight
	}
	return err
}

// parseService takes the URL of a service from a flag.
func parseService(flag, address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%s: got %q, takes http://host[:port] or https://host[:port]", flag, address)
	}
	return u, nil
}

// loopback says whether host is this machine, without asking a name server.
func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
