package main

import (
	"context"
	"fmt"
	"time"

	"keypool/cmd/internal/config"
	"keypool/loadtest/simulate"
)

// simulateFlags describe a deployment and the simulated time, which is a day by default.
type simulateFlags struct {
	Servers      numberFlag    `default:"1000" min:"1" max:"10000" whole:"" placeholder:"N" help:"Servers that share the load."`
	Keys         numberFlag    `default:"100000000" min:"1" max:"1000000000" whole:"" placeholder:"N" help:"Creations in the whole time. Each creation needs a key."`
	Duration     durationFlag  `default:"24h" placeholder:"D" help:"Simulated time, from 1m to 168h."`
	Peak         numberFlag    `default:"1.8" min:"1" max:"2" placeholder:"N" help:"Greatest rate of creations, relative to the average."`
	Capacity     numberFlag    `default:"10000000" min:"100" max:"1000000000" whole:"" placeholder:"N" help:"Keys in a full pool."`
	BatchMin     numberFlag    `default:"100" min:"1" max:"1000000" whole:"" placeholder:"N" help:"Smallest batch of a server."`
	Outage       *durationFlag `placeholder:"D" help:"Duration of an outage of Redis, which loses the pool; 0s for none. The default is 5m, or a quarter of --duration if this is less."`
	WorkerOutage *durationFlag `placeholder:"D" help:"Duration of an outage of all workers; 0s for none. The default is 1h, or a quarter of --duration if this is less."`
	Deploy       *durationFlag `placeholder:"D" help:"Time in which a deploy replaces all servers; 0s for none. The default is 10m, or a quarter of --duration if this is less."`
	Seed         numberFlag    `default:"1" min:"0" max:"1000000000" whole:"" placeholder:"N" help:"Seed of the random choice of servers. The same seed gives the same result."`
	printed
}

// The bounds of the simulated time.
const (
	shortestDay = time.Minute
	longestDay  = 7 * 24 * time.Hour
)

// input returns the input of the simulation. It fails with an error that names the first flag whose duration is outside its bounds.
func (c *simulateFlags) input() (simulate.Input, error) {
	length := time.Duration(c.Duration)
	if length < shortestDay || length > longestDay {
		return simulate.Input{}, &config.Error{Name: "--duration", Got: length.String(), Takes: "a duration from 1m to 168h"}
	}
	in := simulate.Input{
		Servers: int(c.Servers), Keys: int64(c.Keys), Duration: length.Seconds(), Peak: float64(c.Peak), Capacity: int64(c.Capacity),
		BatchMin: int(c.BatchMin), Seed: uint64(c.Seed),
	}
	for _, part := range []struct {
		flag    string
		given   *durationFlag
		usual   time.Duration // the default in a long simulation
		seconds *float64
	}{
		{"--outage", c.Outage, 5 * time.Minute, &in.Outage},
		{"--worker-outage", c.WorkerOutage, time.Hour, &in.WorkerOutage},
		{"--deploy", c.Deploy, 10 * time.Minute, &in.Deploy},
	} {
		d := min(part.usual, length/4)
		if part.given != nil {
			d = time.Duration(*part.given)
		}
		if d > length/4 {
			return simulate.Input{}, &config.Error{Name: part.flag, Got: d.String(), Takes: fmt.Sprintf("at most a quarter of --duration, which is %v", length/4)}
		}
		*part.seconds = d.Seconds()
	}
	return in, nil
}

// Run simulates and prints the result.
func (c *simulateFlags) Run(ctx context.Context, out output) error {
	in, err := c.input()
	if err != nil {
		return err
	}
	if err := checkPage(c.Page); err != nil {
		return err
	}
	s, err := simulate.Make(ctx, in)
	if err != nil {
		return err
	}
	return c.print(out, s)
}
