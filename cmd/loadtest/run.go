package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments"
	"keypool/loadtest/lab"
)

// runFlags are the flags of experiments against a service that is already running.
type runFlags struct {
	Target string   `required:"" placeholder:"URL" help:"The service, such as http://localhost:8080."`
	Admin  string   `placeholder:"URL" help:"The admin listener of one server of the target. The report then shows the state of the pool."`
	Only   []string `placeholder:"NAME,..." default:"create" help:"The experiments: create, mix."`
	Climb  bool     `help:"Also raise the rate until requests fail or become slow."`
	Yes    bool     `help:"Send the load even if the target is not this machine."`
	common
}

// Run runs the experiments.
func (c *runFlags) Run(ctx context.Context, out output) error {
	anywhere := slices.DeleteFunc(experiments.All(), func(e *experiment.Experiment) bool { return !e.Anywhere })
	all, err := experiment.Select(anywhere, "", c.Only)
	if err != nil {
		return fmt.Errorf("--only: %w; create and mix can run against a target", err)
	}
	if err := errors.Join(c.checkTarget(ctx), c.checkAdmin(ctx)); err != nil {
		return err
	}
	return c.execute(ctx, out, all, &experiment.Runner{Options: experiment.Options{
		Target: c.Target, Admin: strings.TrimSuffix(c.Admin, "/"), Climb: c.Climb, Scale: 1,
	}})
}

// checkTarget returns an error if the target is another machine and --yes is missing, or if the target is
// not healthy.
func (c *runFlags) checkTarget(ctx context.Context) error {
	target, err := parseService("--target", c.Target)
	if err != nil {
		return err
	}
	if !c.Yes && !loopback(target.Hostname()) {
		return fmt.Errorf("%s is not this machine; add --yes to send the load to it", target.Host)
	}
	client := loadtest.NewClient(c.Target, 0)
	defer client.Close()
	if err := client.Healthy(ctx); err != nil {
		return fmt.Errorf("the target is not healthy: %w", err)
	}
	return nil
}

// checkAdmin returns an error if --admin names an admin listener that does not answer. Without this
// check, the report would lack the state of the pool and not say why.
func (c *runFlags) checkAdmin(ctx context.Context) error {
	if c.Admin == "" {
		return nil
	}
	if _, err := parseService("--admin", c.Admin); err != nil {
		return err
	}
	if _, err := lab.AskStatus(ctx, strings.TrimSuffix(c.Admin, "/")); err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	return nil
}

// parseService parses the URL of a service, which is the value of a flag.
func parseService(flag, address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%s: got %q, want http://host[:port] or https://host[:port]", flag, address)
	}
	return u, nil
}

// loopback reports whether host is this machine. It makes no DNS query.
func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
