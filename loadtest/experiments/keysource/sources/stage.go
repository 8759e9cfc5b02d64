package sources

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

// Stage is one PostgreSQL and one Redis that all key sources share. Each key source has its own
// databases there.
type Stage struct {
	Postgres, Redis *lab.Database
	run             lab.Run
	made            int // number of databases made so far
}

// NewStage starts PostgreSQL and Redis.
func NewStage(r lab.Run) *Stage {
	return &Stage{run: r, Postgres: lab.Postgres(r, "max_connections=500"), Redis: lab.Redis(r, "--databases", "512")}
}

// Database makes a database. It is a copy of template, or empty if template is "".
func (g *Stage) Database(template string) (name, url string) {
	g.made++
	name = fmt.Sprintf("source_%d", g.made)
	return name, lab.CreateDatabase(g.run, g.Postgres.URL, name, template)
}

// Supply makes the databases of a key source. Each is a copy of template, or empty if template is "".
func (g *Stage) Supply(s *Source, template string) *Supply {
	at := &Supply{}
	_, at.Links = g.Database(template)
	if s.Redis {
		at.Redis = fmt.Sprintf("%s/%d", g.Redis.URL, g.made)
	}
	if s.Tickets {
		_, at.Tickets[0] = g.Database(template)
		_, at.Tickets[1] = g.Database(template)
	}
	if s.Service {
		_, at.Keys = g.Database(template)
	}
	return at
}

// Running is a server with a key source, and the links that were made on it.
type Running struct {
	Source
	At     *Supply
	Server *lab.Program
	Load   *lab.Load
}

// Launch starts a server with the key source. It does not wait until the server is ready.
func (g *Stage) Launch(s *Source, at *Supply, more ...string) *Running {
	run := g.run
	if s.Programs != "" {
		run = programsIn{run, s.Programs}
	}
	server := lab.Server(run, s.Connect(g.run, at, append([]string{"FALLBACK=none"}, more...)...)...)
	server.Launch()
	return &Running{Source: *s, At: at, Server: server, Load: lab.Traffic(g.run, server)}
}

// programsIn is a run whose programs are in the directory dir.
type programsIn struct {
	lab.Run
	dir string
}

// ProgramDir returns the directory of the programs.
func (p programsIn) ProgramDir() string { return p.dir }

// One makes a link. It repeats a refused creation for a while. The servers of all key sources run at
// the same time, so a busy server may briefly have no keys. One may be called concurrently.
func (r *Running) One(ctx context.Context) error {
	return lab.Until(ctx, 100*time.Millisecond, lab.Patience, func(ctx context.Context) (made bool, err error) {
		entry, err := r.Load.TryOne(ctx)
		return entry.State != loadtest.Refused, err
	})
}

// AwaitFull waits until all servers are ready and their pools, if any, are full.
func (g *Stage) AwaitFull(all []*Running) {
	for _, r := range all {
		r.Server.AwaitReady(lab.Patience)
		lab.Wait(g.run, lab.Patience, "the state of "+r.Name+" is ok", func() bool { return r.Server.Status().State == "ok" })
	}
}

// Kill kills all servers and their key services.
func Kill(all []*Running) {
	for _, r := range all {
		r.Server.Kill()
		if r.At.Service != nil {
			r.At.Service.Kill()
		}
	}
}

// Observed holds what every experiment with all key sources observes.
type Observed struct {
	Complete bool              // whether every key source was tested
	Failed   []string          // key sources that could not be measured, each with the reason
	Links    *loadtest.Verdict // verdict on all links that were read back; nil if there were none
}

// Fail records that a key source could not be measured. It must not be called concurrently.
func (o *Observed) Fail(source string, err error) {
	o.Failed = append(o.Failed, fmt.Sprintf("%s: %v", source, err))
}

// Each calls do concurrently for all servers. It returns the servers for which do succeeded, and
// records the failures of the other servers.
func (o *Observed) Each(all []*Running, do func(*Running) error) (well []*Running) {
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, r := range all {
		wait.Go(func() { errs[i] = do(r) })
	}
	wait.Wait()
	for i, r := range all {
		if errs[i] != nil {
			o.Fail(r.Name, errs[i])
			continue
		}
		well = append(well, r)
	}
	return well
}

// ReadBack restarts all servers and then reads all links back. The restart empties the caches, so the
// answers come from the databases. ReadBack reads from all servers at the same time, because the miss limiter
// of each server slows the requests for lost links. Reading from one server after the other would take too long.
func (o *Observed) ReadBack(t lab.Run, all []*Running) {
	for _, r := range all {
		r.Server.Stop()
		r.Server.Launch()
	}
	for _, r := range all {
		r.Server.AwaitReady(lab.Patience)
	}
	verdicts, errs := make([]loadtest.Verdict, len(all)), make([]error, len(all))
	var reads sync.WaitGroup
	for i, r := range all {
		reads.Go(func() { verdicts[i], errs[i] = lab.TryCheck(t, r.Server, lab.Census(r.At.Links), r.Load) })
	}
	reads.Wait()
	for i, r := range all {
		if o.Links = Sum(o.Links, verdicts[i]); errs[i] != nil {
			o.Fail(r.Name, errs[i])
		}
	}
}

// Sum adds v to sum and returns the result. A nil sum counts as zero.
func Sum(sum *loadtest.Verdict, v loadtest.Verdict) *loadtest.Verdict {
	if sum == nil {
		return &v
	}
	sum.Figures = sum.Plus(v.Figures)
	sum.Checked, sum.Unread = sum.Checked+v.Checked, sum.Unread+v.Unread
	sum.Lost, sum.Wrong, sum.Twice = sum.Lost+v.Lost, sum.Wrong+v.Wrong, sum.Twice+v.Twice
	sum.Reports = append(sum.Reports, v.Reports...)
	return sum
}

// EachMeasured returns the claim that every key source was measured. If a key source could not be measured, the
// claim fails even if the run ends early.
func EachMeasured[R any](observed func(*R) *Observed) experiment.Claim[R] {
	return experiment.Claim[R]{
		Name: "every key source measured", Text: "Every key source is measured.", Unit: "key sources not measured", Kind: report.Correctness,
		Judge: func(r *R) experiment.Verdict {
			o := observed(r)
			if !o.Complete && len(o.Failed) == 0 {
				return experiment.Verdict{}
			}
			return experiment.None(int64(len(o.Failed)), "%d key sources could not be measured%s", len(o.Failed), strings.Join(append([]string{""}, o.Failed...), "; "))
		},
	}
}
