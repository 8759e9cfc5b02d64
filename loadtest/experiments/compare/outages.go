package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"

	"github.com/jackc/pgx/v5"
)

const (
	outageRate = 200 // creations per second on each server
	crowdRate  = 50  // likewise while all servers are on one PostgreSQL that is killed

	loadBefore = 4 * time.Second // until something is killed
	loadHalf   = 3 * time.Second // from the first kill to the second one, and from there to the restart
	loadAfter  = 5 * time.Second // when everything is back
	inFlight   = time.Second     // for creations in progress to get their answers
)

// What is killed.
const (
	theRedis    = "Redis"
	theService  = "key service"
	evenTickets = "even tickets"
	bothTickets = "both tickets"
	thePostgres = "PostgreSQL"
)

func (f *found) victims() []string {
	switch {
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

// window is from a kill to the restart.
type window struct{ lost, back time.Time }

// windows are those of one act, by what is killed.
type windows map[string]*window

func (w windows) kill(victim string, kill func()) {
	kill()
	w[victim] = &window{lost: time.Now()}
}

func (w windows) restart(victim string, restart func()) {
	w[victim].back = time.Now()
	restart()
}

// outages kills everything that only some key sources need, and then the database of the links,
// under all.
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
	other := sources.NewStage(t) // it holds nothing else that it would have to recover
	actors = nil
	for _, one := range launch(other, func(*found) bool { return true }, r.found) {
		actors = append(actors, actor{one, "none", []string{thePostgres}})
	}
	r.act(t, other, actors, crowdRate, func(w windows) {
		lab.Execute(t, other.Postgres.URL, `CHECKPOINT`) // how long the recovery takes does not depend on a key source
		w.kill(thePostgres, other.Postgres.Kill)
		lab.Pause(t, loadHalf)
		w.restart(thePostgres, other.Postgres.Restart)
	})
}

// ofSupplies kills Redis, the key services and one ticket database, then the other one, and
// starts all again.
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
	w.restart(evenTickets, func() { lab.Pause(t, inFlight) }) // its time ends here: the second kill must not fail creations that were due before
	w.kill(bothTickets, tickets[0].Kill)
	lab.Pause(t, loadHalf)
	w.restart(theRedis, redis.Restart)
	w.restart(theService, services((*lab.Program).Launch))
	w.restart(bothTickets, func() { // PostgreSQL recovers, so it is last
		tickets[0].Restart()
		tickets[1].Restart()
	})
}

// act loads every server, kills and restarts what kill says, and records what became of the
// creations.
func (r *record) act(t *experiment.T, stage *sources.Stage, actors []actor, rate float64, kill func(windows)) {
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
	kill(killed)
	lab.Pause(t, loadAfter)
	for _, one := range all {
		one.Load.Stop()
	}
	for _, a := range actors {
		fallback, err := a.fallbackCodes(t.Context())
		if err != nil {
			r.Fail(a.Name, fmt.Errorf("look up the sources of codes: %w", err))
			continue
		}
		for _, victim := range a.victims {
			o := observe(a.Load.Entries(), *killed[victim], func(code string) bool { return slices.Contains(fallback, code) })
			o.name, o.victim, o.fallback = a.Name, victim, a.fallback
			if o.all() == 0 { // the machine is so busy that the load stood still
				r.Fail(a.Name, fmt.Errorf("no creation was due without %s", victim))
				continue
			}
			f := r.of(a.Name)
			f.outages = append(f.outages, o)
		}
	}
	r.ReadBack(t, all)
	sources.Kill(all)
}

// fallbackCodes are the codes of links that the fallback made, as the rows of the links say.
func (a *actor) fallbackCodes(ctx context.Context) (codes []string, err error) {
	if a.fallback == "none" {
		return nil, nil
	}
	err = lab.TryQuery(ctx, a.At.Links, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT code FROM links WHERE source = $1`, a.fallback)
		if err == nil {
			codes, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	return codes, err
}
