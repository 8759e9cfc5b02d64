package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments"
)

// runFlags are the flags of experiments against a service that is already running.
type runFlags struct {
	Target string   `required:"" placeholder:"URL" help:"The service, such as http://localhost:8080."`
	Only   []string `placeholder:"NAME,..." default:"create" help:"The experiments: create, mix."`
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
	if err := c.checkTarget(ctx); err != nil {
		return err
	}
	return c.execute(ctx, out, all, &experiment.Runner{Options: experiment.Options{Target: c.Target, Scale: 1}})
}

// checkTarget returns an error if the target is another machine and --yes is missing, or if the target is
// not healthy.
func (c *runFlags) checkTarget(ctx context.Context) error {
	target, err := url.Parse(c.Target)
	if err != nil || (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" {
		return fmt.Errorf("--target: got %q, want http://host[:port] or https://host[:port]", c.Target)
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

// loopback reports whether host is this machine. It makes no DNS query.
func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
