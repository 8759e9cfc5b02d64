package bars

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	// citusRate is the number of creations per second.
	citusRate = 1000
	// citusRounds is the number of rounds. There are more rounds than for other bars, because the cost
	// of a creation varies more. It depends on the size of a group commit, and this size depends on
	// what else the machine does.
	citusRounds = 5
	// citusRound is the duration of the load on one deployment in one round.
	citusRound = 3 * time.Second
	// citusWarmUp is the duration of the load before the rounds. During this load, the server opens its connections.
	citusWarmUp = 2 * time.Second

	plainPostgres    = "plain PostgreSQL"
	costText         = "With %[2]d shards on %[1]d nodes of Citus, the server, the coordinator and the workers together use at most 1.5 times as much processor time for a creation as the server and plain PostgreSQL use."
	coordinatorText  = "With %[2]d shards on %[1]d nodes of Citus, the coordinator uses at most 10 %% of the processor time that the server, the coordinator and the workers together use for a creation."
	costRatio        = 1.5
	coordinatorShare = 10 // percent
)

// spread says over how many nodes and shards the links of a deployment are spread.
type spread struct {
	nodes, shards int
	judged        bool // the figures of the deployment have an aim; otherwise they are yardsticks
}

// spreads are the deployments on Citus, in the order of the table.
var spreads = []spread{{nodes: 1, shards: 32}, {nodes: 2, shards: 8, judged: true}, {nodes: 2, shards: 32, judged: true}, {nodes: 4, shards: 32}} //nolint:gochecknoglobals // the value never changes

func (s spread) String() string {
	if s.nodes == 1 {
		return fmt.Sprintf("1 node, %d shards", s.shards)
	}
	return fmt.Sprintf("%d nodes, %d shards", s.nodes, s.shards)
}

func (s spread) cost() string        { return "cost on " + s.String() }
func (s spread) coordinator() string { return "coordinator of " + s.String() }

// bars returns the bars of a spread.
func (s spread) bars() []bar {
	cost := bar{name: s.cost(), unit: micros, versus: plainPostgres}
	coordinator := bar{name: s.coordinator(), unit: "%"}
	if s.judged {
		cost.text, cost.most = fmt.Sprintf(costText, s.nodes, s.shards), costRatio
		coordinator.text, coordinator.most = fmt.Sprintf(coordinatorText, s.nodes, s.shards), coordinatorShare
	}
	return []bar{cost, coordinator}
}

// citus measures the processor time of a creation on Citus clusters and on a plain PostgreSQL. It belongs to the group citus,
// because it runs only where Citus is installed.
func citus() *experiment.Experiment {
	var bars []bar
	for _, s := range spreads {
		bars = append(bars, s.bars()...)
	}
	d := definition("citus/cost", "Cost of a creation on Citus",
		"Clients create 1,000 links per second, in turn on a plain PostgreSQL and on Citus clusters with different numbers of workers and shards. Each deployment has its own server and its own Redis. "+
			"After each round, the processor time of each process and of its children is divided by the number of acknowledged creations.",
		bars, measureCitus)
	d.Claims = append(d.Claims, measure.Accounts("No creation fails.", func(r *record) *loadtest.Verdict { return r.links })...)
	two := spread{nodes: 2, shards: 32}
	d.Controls = []experiment.Control{{Without: []string{"placement"}, Refutes: two.cost(), AlsoRefutes: []string{two.coordinator()}}}
	return experiment.Define(d)
}

// measureCitus measures all deployments in turn, and then reads all links back.
func measureCitus(t *experiment.T, r *record) {
	length := cmp.Or(t.Duration, citusRound)
	if t.Scale < 1 { // the run is small, such as that of a control
		length /= 2
	}
	all := []*deployment{deploy(t, plainPostgres, 0, lab.Postgres(t), nil)}
	for _, s := range spreads {
		c := lab.Citus(t, s.nodes)
		all = append(all, deploy(t, "Citus, "+s.String(), s.shards, c.Coordinator, c.Workers))
	}
	rate := cmp.Or(t.Rate, citusRate)
	var subjects []measure.Subject
	for _, d := range all {
		d.load.Run(t.Context(), rate, citusWarmUp, loadtest.NewRecorder())
		subjects = append(subjects, measure.Subject{Name: d.name, Unit: micros, Measure: func(ctx context.Context) (float64, error) { return d.measure(ctx, rate, length) }})
	}
	sums := alternateIn(t, citusRounds, subjects...)
	for i, s := range spreads {
		r.put(s.cost(), sums[i+1], sums[0])
		r.put(s.coordinator(), all[i+1].coordinatorShare(), nil)
	}
	r.tables = append(r.tables, costTable(all))
	for _, d := range all {
		links, notes := measure.ReadBack(t, d.server, lab.Census(d.nodes[0].URL), d.load)
		r.links, r.notes = sources.Sum(r.links, *links), append(r.notes, notes...)
	}
}

// deployment is a server with its own Redis and its own database, which is a PostgreSQL or a Citus cluster.
type deployment struct {
	name   string
	server *lab.Program
	redis  *lab.Database
	nodes  []*lab.Database // the PostgreSQL or the coordinator, and then the workers
	load   *lab.Load
	costs  []cost // one for each round
}

// cost is the processor time of each part of a deployment: in total, or of one creation.
type cost struct{ server, coordinator, workers, redis float64 } // times in microseconds

// micros is the unit of a cost.
const micros = "µs"

// sum returns the cost that is judged. The cost of Redis is the same for all deployments and is not part of the sum.
func (c cost) sum() float64 { return c.server + c.coordinator + c.workers }

// since returns the processor time that each part of the deployment used between the measurements
// before and c. It returns an error if the processor time of a part decreased, because then a process
// of this part has started again.
func (c cost) since(before cost) (cost, error) {
	used := cost{c.server - before.server, c.coordinator - before.coordinator, c.workers - before.workers, c.redis - before.redis}
	if min(used.server, used.coordinator, used.workers, used.redis) < 0 {
		return cost{}, fmt.Errorf("the processor time decreased from %.0f to %.0f %s, so a process has started again", before, c, micros)
	}
	return used, nil
}

// per returns the cost of one of n creations.
func (c cost) per(n float64) cost {
	return cost{c.server / n, c.coordinator / n, c.workers / n, c.redis / n}
}

// deploy starts a server on a database and a Redis. It distributes the links over the given number
// of shards, or does not distribute them if shards is 0.
func deploy(t *experiment.T, name string, shards int, first *lab.Database, workers []*lab.Database) *deployment {
	d := &deployment{name: name, redis: lab.Redis(t), nodes: append([]*lab.Database{first}, workers...)}
	d.server = lab.Server(t, "DATABASE_URL="+first.URL, "REDIS_URL="+d.redis.URL)
	if shards > 0 {
		migration := d.server.Begin("migrate", "--shards", fmt.Sprint(shards))
		<-migration.Done()
		t.Must(migration.Err())
	}
	d.server.Start()
	lab.Wait(t, lab.Patience, "the pool is full", func() bool { return d.server.Status().Full() })
	d.load = lab.Traffic(t, d.server)
	return d
}

// used returns the processor time that each part has used so far.
func (d *deployment) used() (c cost) {
	c.server = float64(d.server.Processor().Microseconds())
	c.redis = float64(d.redis.Processor().Microseconds())
	for i, node := range d.nodes {
		part := &c.workers
		if i == 0 {
			part = &c.coordinator
		}
		*part += float64(node.Processor().Microseconds())
	}
	return c
}

// measure creates links at the given rate for a length of time, and returns the cost of an acknowledged creation.
func (d *deployment) measure(ctx context.Context, rate float64, length time.Duration) (float64, error) {
	before, recorder := d.used(), loadtest.NewRecorder()
	d.load.Run(ctx, rate, length, recorder)
	after, f := d.used(), recorder.Figures()
	if f.Acknowledged == 0 {
		return 0, fmt.Errorf("no creation was acknowledged: %d were refused, %d have an unknown outcome, %d were not sent", f.Refused, f.Unknown, f.Unsent)
	}
	used, err := after.since(before)
	if err != nil {
		return 0, err
	}
	d.costs = append(d.costs, used.per(float64(f.Acknowledged)))
	return d.costs[len(d.costs)-1].sum(), nil
}

// series returns the value part(c) for the cost c of each round.
func (d *deployment) series(part func(cost) float64) (s measure.Series) {
	for _, c := range d.costs {
		s = append(s, part(c))
	}
	return s
}

// coordinatorShare returns, for each round, the share of the coordinator in the cost that is judged, in percent.
func (d *deployment) coordinatorShare() measure.Series {
	return d.series(func(c cost) float64 { return 100 * c.coordinator / c.sum() })
}

// costTable shows the costs of all deployments by part. The first deployment is the baseline.
func costTable(all []*deployment) report.Table {
	table := report.Table{
		Title:   "Processor time of a creation by part, in µs: median (range) of the rounds",
		Columns: []string{"database", "server", "PostgreSQL or coordinator", "workers", "sum", "of " + plainPostgres, "Redis, not in the sum"},
	}
	base := all[0].series(cost.sum)
	for _, d := range all {
		cell := func(of func(cost) float64) string {
			return strings.ReplaceAll(d.series(of).Spread(micros), " "+micros, "")
		}
		table.Rows = append(table.Rows, []string{
			d.name, cell(func(c cost) float64 { return c.server }), cell(func(c cost) float64 { return c.coordinator }),
			cell(func(c cost) float64 { return c.workers }), cell(cost.sum), d.series(cost.sum).Over(base).Spread(measure.Times),
			cell(func(c cost) float64 { return c.redis }),
		})
	}
	return table
}
