package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
)

const (
	outageRate = 200 // creations per second on each server
	crowdRate  = 50  // creations per second on each server, when the PostgreSQL that all servers share is killed

	loadBefore = 4 * time.Second // time from the start of the load to the first kill
	loadHalf   = 3 * time.Second // time from the first kill to the second, and from the second kill to the restart
	loadAfter  = 5 * time.Second // time from the last restart to the end of the load
)

// The components that are killed.
const (
	theRedis    = "Redis"
	theService  = "key service"
	evenTickets = "ticket database with even numbers"
	bothTickets = "both ticket databases"
	thePostgres = "PostgreSQL"
)

// victims returns the components that are killed. It returns nil if the key source needs only the
// database of the links, or is a rival.
func (f *found) victims() []string {
	switch {
	case isRival(&f.Source):
		return nil
	case f.Redis:
		return []string{theRedis}
	case f.Service:
		return []string{theService}
	case f.Tickets:
		return []string{evenTickets, bothTickets}
	}
	return nil
}

// actor is a server under load while something that it needs is killed.
type actor struct {
	*sources.Running
	fallback string
	victims  []string
}

// window holds the times of a kill, of the restart, and of the first answer after the restart. PostgreSQL answers only
// some time after its restart, because it first flushes its data directory to disk and then reads its log. The run
// does not wait for the first answer of a key service. For a key service, the field answeredAt is therefore the time of
// its launch. If the next outage begins without a restart, back is the end of this outage, and answeredAt is zero.
type window struct{ lost, back, answeredAt time.Time }

// windows holds the windows of one load, by the component that is killed.
type windows map[string]*window

func (w windows) kill(victim string, kill func()) {
	kill()
	w[victim] = &window{lost: time.Now()}
}

func (w windows) restart(victim string, restart func()) {
	w[victim].back = time.Now()
	restart()
	w[victim].answeredAt = time.Now()
}

// end ends the window of a component that stays down.
func (w windows) end(victim string) { w[victim].back = time.Now() }

// outages kills the components that only some key sources need. Then it kills the database of the
// links, which all key sources need.
func (r *record) outages(t *experiment.T, stage *sources.Stage) {
	t.Phase(0.72, "starting ticket databases")
	tickets := [2]*lab.Database{lab.Postgres(t), lab.Postgres(t)}
	var actors []actor
	for _, fallback := range []string{"none", random} {
		for _, f := range r.found {
			if f.victims() == nil {
				continue
			}
			at := stage.Supply(&f.Source, "")
			for i := range at.Tickets {
				if f.Tickets {
					at.Tickets[i] = lab.CreateDatabase(t, tickets[i].URL, "tickets_"+fallback, "")
				}
			}
			actors = append(actors, actor{stage.Launch(&f.Source, at, "FALLBACK="+fallback, fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys)), fallback, f.victims()})
		}
	}
	r.act(t, stage, actors, outageRate, func(w windows) { w.ofSupplies(t, stage.Redis, tickets, actors) })

	t.Phase(0.8, "starting another PostgreSQL")
	other := sources.NewStage(t) // so that the recovery does not depend on the data of earlier measurements
	actors = nil
	for _, one := range launch(other, func(f *found) bool { return !isRival(&f.Source) }, r.found) {
		actors = append(actors, actor{one, "none", []string{thePostgres}})
	}
	r.act(t, other, actors, crowdRate, func(w windows) {
		lab.Execute(t, other.Postgres.URL, `CHECKPOINT`) // so that the recovery does not depend on earlier writes
		w.kill(thePostgres, other.Postgres.Kill)
		lab.Pause(t, loadHalf)
		w.restart(thePostgres, other.Postgres.Restart)
	})
}

// ofSupplies kills Redis, the key services and one ticket database. Then it kills the other ticket
// database, and restarts all these components.
func (w windows) ofSupplies(t *experiment.T, redis *lab.Database, tickets [2]*lab.Database, actors []actor) {
	services := func(do func(*lab.Program)) func() {
		return func() {
			for _, a := range actors {
				if a.At.Service != nil {
					do(a.At.Service)
				}
			}
		}
	}
	w.kill(theRedis, redis.Kill)
	w.kill(theService, services((*lab.Program).Kill))
	w.kill(evenTickets, tickets[1].Kill)
	lab.Pause(t, loadHalf)
	w.end(evenTickets)
	awaitAnswers(t, actors)
	w.kill(bothTickets, tickets[0].Kill)
	lab.Pause(t, loadHalf)
	w.restart(theRedis, redis.Restart)
	w.restart(theService, services((*lab.Program).Launch))
	w.restart(bothTickets, func() { // this restart is the last, because PostgreSQL takes time to recover
		tickets[0].Restart()
		tickets[1].Restart()
	})
}

// awaitAnswers waits until every creation with tickets that is already due has its answer. A creation that has no answer
// yet could fail, because the other ticket database is killed next.
func awaitAnswers(t *experiment.T, actors []actor) {
	due := time.Now()
	for _, a := range actors {
		if !a.Tickets {
			continue
		}
		lab.Wait(t, lab.Patience, "every creation of "+a.Name+" that was due is answered", func() bool {
			return !slices.ContainsFunc(a.Load.Entries(), func(e loadtest.Entry) bool { return e.State == loadtest.Intended && e.At.Before(due) })
		})
	}
}

// act loads every server, calls disturb to kill and restart components, and records what happened
// to the creations.
func (r *record) act(t *experiment.T, stage *sources.Stage, actors []actor, rate float64, disturb func(windows)) {
	var all []*sources.Running
	for _, a := range actors {
		all = append(all, a.Running)
	}
	stage.AwaitFull(all)
	killed := make(windows)
	t.Phase(0.8, "%.0f creations per second on each of %d servers", rate, len(all))
	for _, one := range all {
		one.Load.Start(rate)
	}
	lab.Pause(t, loadBefore)
	disturb(killed)
	lab.Pause(t, loadAfter)
	for _, one := range all {
		one.Load.Stop()
	}
	for _, a := range actors {
		fallback, err := a.fallbackCodes(t.Context())
		if err != nil {
			r.Fail(a.Name, fmt.Errorf("look up which codes the fallback made: %w", err))
			continue
		}
		for _, victim := range a.victims {
			o := observe(a.Load.Entries(), *killed[victim], func(code string) bool { return slices.Contains(fallback, code) })
			o.name, o.victim, o.fallback = a.Name, victim, a.fallback
			if o.all() == 0 { // the machine was too busy to send the load
				r.Fail(a.Name, fmt.Errorf("no creation was due while %s was down", victim))
				continue
			}
			f := r.of(a.Name)
			f.outages = append(f.outages, o)
		}
	}
	r.ReadBack(t, all)
	sources.Kill(all)
}

// fallbackCodes returns the codes that the fallback made, according to the rows of the links.
func (a *actor) fallbackCodes(ctx context.Context) ([]string, error) {
	if a.fallback == "none" {
		return nil, nil
	}
	return lab.Values[string](ctx, a.At.Links, `SELECT code FROM all_links WHERE source = $1`, a.fallback)
}
