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

// Stage is one PostgreSQL and one Redis that all sources share. Each source has databases of its
// own there.
type Stage struct {
	Postgres, Redis *lab.Database
	run             lab.Run
	made            int // databases so far
}

// NewStage starts the servers.
func NewStage(r lab.Run) *Stage {
	return &Stage{run: r, Postgres: lab.Postgres(r, "max_connections=500"), Redis: lab.Redis(r, "--databases", "512")}
}

// Database makes a database, a copy of template unless that is "".
func (g *Stage) Database(template string) (name, url string) {
	g.made++
	name = fmt.Sprintf("source_%d", g.made)
	return name, lab.CreateDatabase(g.run, g.Postgres.URL, name, template)
}

// Supply makes the databases of a source, each a copy of template.
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

// Launch starts a server with the source and does not wait for it.
func (g *Stage) Launch(s *Source, at *Supply, more ...string) *Running {
	server := lab.Server(g.run, s.Connect(g.run, at, append([]string{"FALLBACK=none"}, more...)...)...)
	server.Launch()
	return &Running{Source: *s, At: at, Server: server, Load: lab.Traffic(g.run, server)}
}

// One makes a link. A refused creation is repeated for a while, because the servers of all sources
// run side by side and a busy one may have no key at the moment. It may be called concurrently.
func (r *Running) One(ctx context.Context) error {
	return lab.Until(ctx, 100*time.Millisecond, lab.Patience, func(ctx context.Context) (made bool, err error) {
		entry, err := r.Load.TryOne(ctx)
		if err == nil && entry.State != loadtest.Acknowledged {
			err = fmt.Errorf("a creation is %s: %s", entry.State, entry.Detail)
		}
		return err == nil || entry.State != loadtest.Refused, err
	})
}

// AwaitFull waits until all servers are ready and their pools, if any, are full.
func (g *Stage) AwaitFull(all []*Running) {
	for _, r := range all {
		r.Server.AwaitReady(lab.Patience)
		lab.Wait(g.run, lab.Patience, r.Name+" is ok", func() bool { return r.Server.Status().State == "ok" })
	}
}

// Kill ends all servers and key services.
func Kill(all []*Running) {
	for _, r := range all {
		r.Server.Kill()
		if r.At.Service != nil {
			r.At.Service.Kill()
		}
	}
}

// Observed is what every experiment with all sources observes.
type Observed struct {
	Complete bool              // every source was tried
	Failed   []string          // the sources that could not be measured, each with the reason
	Links    *loadtest.Verdict // on all links that were read back; nil: none was
}

// Fail records that a source could not be measured. It is for one goroutine at a time.
func (o *Observed) Fail(source string, err error) {
	o.Failed = append(o.Failed, fmt.Sprintf("%s: %v", source, err))
}

// Each calls do for all sources side by side and returns those for which it succeeded. It
// records the others.
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

// ReadBack restarts all servers, because a server answers from memory for the links that it
// made, and then reads all links back.
func (o *Observed) ReadBack(t lab.Run, all []*Running) {
	for _, r := range all {
		r.Server.Stop()
		r.Server.Launch()
	}
	for _, r := range all {
		r.Server.AwaitReady(lab.Patience)
		v, err := lab.TryCheck(t, r.Server, nil, r.Load)
		if o.Links = Sum(o.Links, v); err != nil {
			o.Fail(r.Name, err)
		}
	}
}

// Sum adds a verdict to the sum of others, which is nil at first.
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

// EachMeasured is the claim that every source was measured.
func EachMeasured[R any](observed func(*R) *Observed) experiment.Claim[R] {
	return experiment.Claim[R]{
		Name: "every key source measured", Text: "Every key source is measured.", Unit: "key sources", Kind: report.Correctness,
		Judge: func(r *R) experiment.Verdict {
			o := observed(r)
			if !o.Complete {
				return experiment.Verdict{}
			}
			return experiment.None(int64(len(o.Failed)), "%d could not be measured%s", len(o.Failed), strings.Join(append([]string{""}, o.Failed...), "; "))
		},
	}
}
