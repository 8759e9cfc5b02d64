package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"keypool/cmd/internal/config"
	"keypool/loadtest/simulate"
)

// simulateFlags describe a deployment and the simulated time, which is a day by default.
type simulateFlags struct {
	Servers      figure `default:"1000" min:"1" max:"10000" whole:"" placeholder:"N" help:"Servers that share the load."`
	Keys         figure `default:"100000000" min:"1" max:"1000000000" whole:"" placeholder:"N" help:"Creations in the whole time. Each needs a key."`
	Duration     span   `default:"24h" placeholder:"D" help:"Simulated time, from 1m to 168h."`
	Peak         figure `default:"1.8" min:"1" max:"2" placeholder:"N" help:"Greatest rate of creations, relative to the average."`
	Capacity     figure `default:"10000000" min:"100" max:"1000000000" whole:"" placeholder:"N" help:"Keys in a full pool."`
	BatchMin     figure `default:"100" min:"1" max:"1000000" whole:"" placeholder:"N" help:"Smallest batch of a server."`
	Outage       span   `default:"5m" placeholder:"D" help:"Duration of an outage of Redis, which loses the pool; 0s for none."`
	WorkerOutage span   `default:"1h" placeholder:"D" help:"Duration of an outage of all workers; 0s for none."`
	Deploy       span   `default:"10m" placeholder:"D" help:"Time in which a deploy replaces all servers; 0s for none."`
	Seed         figure `default:"1" min:"0" max:"1000000000" whole:"" placeholder:"N" help:"Seed of the random choice of servers. The same seed gives the same result."`
	JSON         bool   `help:"Print the simulation as JSON."`
	Page         string `placeholder:"FILE" help:"Also write the simulation with charts to this file, as HTML."`
}

// The bounds of the simulated time.
const (
	shortestDay = time.Minute
	longestDay  = 7 * 24 * time.Hour
)

// check returns an error that names the first flag whose duration is outside its bounds.
func (c *simulateFlags) check() error {
	length := time.Duration(c.Duration)
	if length < shortestDay || length > longestDay {
		return &config.Error{Name: "--duration", Got: length.String(), Takes: "a duration from 1m to 168h"}
	}
	for _, part := range []struct {
		flag string
		span span
	}{{"--outage", c.Outage}, {"--worker-outage", c.WorkerOutage}, {"--deploy", c.Deploy}} {
		if time.Duration(part.span) > length/4 {
			return &config.Error{Name: part.flag, Got: time.Duration(part.span).String(), Takes: fmt.Sprintf("at most a quarter of --duration, which is %v", length/4)}
		}
	}
	return nil
}

// Run simulates and prints the result.
func (c *simulateFlags) Run(ctx context.Context, out output) error {
	if err := c.check(); err != nil {
		return err
	}
	s, err := simulate.Make(ctx, simulate.Input{
		Servers: int(c.Servers), Keys: int64(c.Keys), Duration: time.Duration(c.Duration).Seconds(), Peak: float64(c.Peak), Capacity: int64(c.Capacity),
		BatchMin: int(c.BatchMin), Outage: time.Duration(c.Outage).Seconds(), WorkerOutage: time.Duration(c.WorkerOutage).Seconds(),
		Deploy: time.Duration(c.Deploy).Seconds(), Seed: uint64(c.Seed),
	})
	if err != nil {
		return err
	}
	write := s.WriteText
	if c.JSON {
		write = s.WriteJSON
	}
	err = write(out.stdout)
	if c.Page != "" {
		err = errors.Join(err, writeFile(c.Page, func(f *os.File) error { return s.HTML(f) }))
	}
	return err
}
