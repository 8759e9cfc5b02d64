// Package simulate runs the supply of keys of a deployment on a virtual clock. The simulation of a day of a
// thousand servers takes less than a minute.
//
// The following parts are the code of the product, without changes: the local batch of each server ([kgs.Source]) with
// its fallback and its circuit breaker ([kgs.Breaker]), the worker ([refill.Worker]), the supervisor that replaces the
// worker, and the dead man's switch ([refill.DeadMansSwitch]). The following parts are models: Redis with the pool, the
// ledger, the network, the processes and the clients. [Simulation.Models] names the source of each figure in the models.
//
// Invariant: two runs with the same [Input] have the same result.
package simulate

import (
	"context"
	"slices"
	"time"

	"keypool/loadtest/plan"
)

// Input describes a deployment and its day. All figures are positive, except that Outage, WorkerOutage, Deploy and
// Seed may be 0. Peak is from 1 to 2. Outage, WorkerOutage and Deploy are at most a quarter of Duration each.
type Input struct {
	Servers      int     `json:"servers"`
	Keys         int64   `json:"creations"` // number of creations in the whole Duration
	Duration     float64 `json:"duration_seconds"`
	Peak         float64 `json:"peak_ratio"` // greatest rate of creations, relative to the average
	Capacity     int64   `json:"capacity_keys"`
	BatchMin     int     `json:"batch_keys_min"`
	Outage       float64 `json:"outage_seconds"`        // outage of Redis, which loses the pool; begins after a quarter of Duration
	WorkerOutage float64 `json:"worker_outage_seconds"` // outage of all workers; begins after half of Duration, at the peak
	Deploy       float64 `json:"deploy_seconds"`        // time in which a deploy replaces every server and worker; begins after three quarters of Duration
	Seed         uint64  `json:"seed"`
}

// Simulation is the result for an input.
type Simulation struct {
	Input   Input           `json:"input"`
	Totals  Tally           `json:"totals"`
	Closes  bool            `json:"accounts_close"` // every key and every creation is accounted for
	Outage  *Outage         `json:"outage,omitempty"`
	Worker  *WorkerOutage   `json:"worker_outage,omitempty"`
	Deploy  *Deploy         `json:"deploy,omitempty"`
	Signals []Signal        `json:"signals"` // signals of the dead man's switch of the first server
	Samples []Sample        `json:"samples"`
	Models  []plan.Constant `json:"constants"`
}

// Outage is what happened while Redis was down. A server creates links with its local keys until they are used up, and
// then with the fallback.
type Outage struct {
	At        float64 `json:"at_seconds"`
	Seconds   float64 `json:"seconds"`
	Shortest  float64 `json:"local_keys_last_seconds_at_least"`
	Mean      float64 `json:"local_keys_last_seconds_mean"`
	Longest   float64 `json:"local_keys_last_seconds_at_most"` // equals Seconds if a server had keys until the end of the outage
	Creations int64   `json:"creations"`
	Fallback  int64   `json:"fallback_creations"` // creations with a code of the fallback during the outage
	Open      int     `json:"open_breakers_at_most"`
	Recovered float64 `json:"recovery_seconds"` // time from the end of the outage to the last creation by the fallback
}

// WorkerOutage is what happened while no worker ran.
type WorkerOutage struct {
	At       float64 `json:"at_seconds"`
	Seconds  float64 `json:"seconds"`
	Keys     int64   `json:"pool_keys_at_start"`
	Least    int64   `json:"pool_keys_at_least"`
	Fallback int64   `json:"fallback_creations"`
}

// Deploy is what happened while the servers were replaced.
type Deploy struct {
	At       float64 `json:"at_seconds"`
	Seconds  float64 `json:"seconds"`
	Servers  int     `json:"servers"`
	Fallback int64   `json:"fallback_creations"`
}

const (
	workers  = 2 // as many as the Helm chart in deploy/helm starts by default
	batchMax = 100_000
	samples  = 1440 // wanted number of samples of a simulation: one for each minute of a day
)

// Make runs the simulation. It returns an error only if ctx ends.
func Make(ctx context.Context, in Input) (*Simulation, error) {
	length := seconds(in.Duration)
	step := in.step()
	sample := max(step, (length / samples).Truncate(step))
	events, deploy := in.events(length)
	cfg := Config{
		Servers: in.Servers, Workers: workers, Capacity: in.Capacity, Filled: in.Capacity, BatchMin: in.BatchMin, BatchMax: max(batchMax, in.BatchMin),
		Duration: length, Step: step, Sample: sample, Events: events, Load: daily(in.Keys, length, step, in.Peak, in.Servers, in.Seed),
	}
	out, err := Run(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Simulation{Input: in, Totals: out.Tally, Closes: out.Tally.Closes(), Signals: out.Signals, Samples: out.Samples, Models: constants(step)}
	if in.Outage > 0 {
		s.Outage = out.outage(length/4, seconds(in.Outage))
	}
	if in.WorkerOutage > 0 {
		s.Worker = out.workerOutage(length/2, seconds(in.WorkerOutage))
	}
	if in.Deploy > 0 {
		s.Deploy = &Deploy{At: deploy.Seconds(), Seconds: in.Deploy, Servers: in.Servers, Fallback: out.fallback(deploy, seconds(in.Deploy))}
	}
	return s, nil
}

// events returns the events of the day, and the time at which the deploy begins. The deploy restarts all workers at
// its beginning and replaces the servers one after the other.
func (in Input) events(length time.Duration) (all []Event, deploy time.Duration) {
	if in.Outage > 0 {
		all = append(all, Event{At: length / 4, Kind: RedisStops}, Event{At: length/4 + seconds(in.Outage), Kind: RedisStarts})
	}
	if in.WorkerOutage > 0 {
		all = append(all, Event{At: length / 2, Kind: WorkersStop}, Event{At: length/2 + seconds(in.WorkerOutage), Kind: WorkersStart})
	}
	deploy = length / 4 * 3
	if in.Deploy == 0 {
		return all, deploy
	}
	all = append(all, Event{At: deploy, Kind: WorkersStop}, Event{At: deploy, Kind: WorkersStart})
	for i := range in.Servers {
		all = append(all, Event{At: deploy + seconds(in.Deploy)*time.Duration(i)/time.Duration(in.Servers), Kind: ServerStarts, Server: i})
	}
	return all, deploy
}

func (o *Outcome) outage(at, lasts time.Duration) *Outage {
	during := o.between(at, at+lasts)
	last := o.between(at, at+lasts+time.Minute)
	out := &Outage{
		At: at.Seconds(), Seconds: lasts.Seconds(), Shortest: slices.Min(o.Lasted).Seconds(), Longest: slices.Max(o.Lasted).Seconds(),
		Mean: o.MeanLasted().Seconds(), Creations: during[len(during)-1].Creations - during[0].Creations,
		Fallback: during[len(during)-1].Fallback - during[0].Fallback, Recovered: o.Recovered.Seconds(),
	}
	for _, s := range last {
		out.Open = max(out.Open, s.Open)
	}
	return out
}

// MeanLasted returns the mean of Lasted.
func (o *Outcome) MeanLasted() (mean time.Duration) {
	for _, d := range o.Lasted {
		mean += d
	}
	return mean / time.Duration(max(1, len(o.Lasted)))
}

func (o *Outcome) workerOutage(at, lasts time.Duration) *WorkerOutage {
	during := o.between(at, at+lasts)
	w := &WorkerOutage{At: at.Seconds(), Seconds: lasts.Seconds(), Keys: during[0].Pool, Least: during[0].Pool, Fallback: o.fallback(at, lasts)}
	for _, s := range during {
		w.Least = min(w.Least, s.Pool)
	}
	return w
}

// fallback returns the number of creations by the fallback between at and at+lasts.
func (o *Outcome) fallback(at, lasts time.Duration) int64 {
	during := o.between(at, at+lasts)
	return during[len(during)-1].Fallback - during[0].Fallback
}

// between returns the samples of the interval [from, to]. If no sample is exactly at the end of the interval, between also
// returns the first sample after the end.
func (o *Outcome) between(from, to time.Duration) []Sample {
	i := slices.IndexFunc(o.Samples, func(s Sample) bool { return s.At >= from.Seconds() })
	j := slices.IndexFunc(o.Samples, func(s Sample) bool { return s.At >= to.Seconds() })
	if j < 0 {
		j = len(o.Samples) - 1
	}
	return o.Samples[min(i, j) : j+1]
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
