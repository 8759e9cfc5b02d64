package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments"
	"keypool/loadtest/lab"
)

// service are the flags of every command that judges a running service.
type service struct {
	Target  string        `required:"" placeholder:"URL" help:"The service, such as http://localhost:8080."`
	Timeout time.Duration `default:"10s" help:"Time limit of one request. Not for experiments."`
	Yes     bool          `help:"Load the target although it is not this machine."`
	JSON    bool          `name:"json" help:"Print the verdict as JSON; of experiments, also their progress."`
}

// maxRate is far beyond what one sender can reach, in links per second.
const maxRate = 1_000_000

type runFlags struct {
	service
	Rate     float64       `default:"1000" help:"Links per second; of the experiment load/mix, redirects per second."`
	Duration time.Duration `default:"60s" help:"How long links are created; of an experiment, its steady part."`
	InFlight int           `default:"4000" help:"Requests at a time; what is due beyond them counts as failed. Not for experiments."`
	Journal  string        `placeholder:"FILE" help:"Record each creation in this new file. Not for experiments."`

	Only   []string `placeholder:"NAME,..." help:"Instead of the load alone, run these experiments against the target and write a report: create, mix."`
	Admin  string   `placeholder:"URL" help:"The admin listener of one server of the target, for the pool's state. For experiments."`
	Climb  bool     `help:"In experiments, raise the rate until the target no longer keeps up."`
	Report string   `placeholder:"DIR" default:"${report}" help:"Directory of the experiments' report."`
}

// Run creates links, then checks them. Ctrl-C ends the load, and what was created is checked.
func (c *runFlags) Run(ctx context.Context, out output) error {
	if !(c.Rate > 0 && c.Rate <= maxRate) || c.Duration <= 0 || c.InFlight <= 0 {
		return fmt.Errorf("--rate, --duration and --in-flight must be above 0, and the rate at most %d", maxRate)
	}
	if len(c.Only) == 0 && (c.Admin != "" || c.Climb || c.Report != defaultReport) {
		return errors.New("--admin, --climb and --report are for experiments, which --only names")
	}
	client, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if len(c.Only) == 0 {
		return c.load(ctx, client, out)
	}
	return c.experiments(ctx, out)
}

func (c *runFlags) experiments(ctx context.Context, out output) error {
	if c.Timeout != loadtest.DefaultTimeout || c.InFlight != loadtest.DefaultInFlight || c.Journal != "" {
		return errors.New("--timeout, --in-flight and --journal are not for experiments, which have their own")
	}
	anywhere := slices.DeleteFunc(experiments.All(), func(e *experiment.Experiment) bool { return !e.Anywhere })
	all, err := experiment.Select(anywhere, "", c.Only)
	if err != nil {
		return fmt.Errorf("--only: %w; create and mix can run against a target", err)
	}
	if err := c.checkAdmin(ctx); err != nil {
		return err
	}
	h := &harness{dir: c.Report, view: newView(out, c.JSON, all), runner: &experiment.Runner{Options: experiment.Options{
		Target: c.Target, Admin: c.Admin, Climb: c.Climb, Rate: c.Rate, Duration: c.Duration, Scale: 1,
	}}}
	return h.execute(ctx, all)
}

// checkAdmin fails when the admin listener that the flag names does not answer: the report
// would lack the pool's state without a reason.
func (c *runFlags) checkAdmin(ctx context.Context) error {
	if c.Admin == "" {
		return nil
	}
	if _, err := parseService("--admin", c.Admin); err != nil {
		return err
	}
	c.Admin = strings.TrimSuffix(c.Admin, "/")
	if _, err := lab.AskStatus(ctx, c.Admin); err != nil {
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
	Journal string `arg:"" help:"The file that an earlier run wrote with --journal."`
}

// Run reads back what the journal acknowledges and creates nothing.
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

// connect makes a client of the target, when loading it is permitted and it is healthy.
func (s *service) connect(ctx context.Context) (*loadtest.Client, error) {
	target, err := parseService("--target", s.Target)
	if err != nil {
		return nil, err
	}
	if !s.Yes && !loopback(target.Hostname()) {
		return nil, fmt.Errorf("%s is not this machine; add --yes to load it", target.Host)
	}
	client := loadtest.NewClient(s.Target, s.Timeout)
	if err := client.Healthy(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("the target is not healthy: %w", err)
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
	if err == nil && !verdict.Passed() {
		return errFailed
	}
	return err
}

// parseService parses the URL of a service, the value of a flag.
func parseService(flag, address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%s: got %q, takes http://host[:port] or https://host[:port]", flag, address)
	}
	return u, nil
}

// loopback reports whether host is this machine, without a name server.
func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
