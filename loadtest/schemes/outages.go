package schemes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/scenario"
	"keypool/loadtest/testbed"

	"github.com/jackc/pgx/v5"
)

const (
	// outageRate is how many creations a second there are on each server.
	outageRate = 200
	// crowdRate is how many while all servers are on one PostgreSQL, and it away.
	crowdRate = 50
)

// outageFound is what became of the creations of a scheme when something was killed.
type outageFound struct {
	victim   string // "Redis"
	fallback string // the setting
	fate
}

// actor is a scheme in an act, with the load on it.
type actor struct {
	*running
	victim   string
	fallback string
	traffic  *scenario.Traffic
	// The load is judged by what happened to it from lost to back.
	lost, back time.Time
}

// name is what failures are recorded by.
func (a *actor) name() string { return a.running.name }

// The victims.
const (
	victimRedis    = "Redis"
	victimService  = "key service"
	victimEven     = "even tickets"
	victimTickets  = "both tickets"
	victimPostgres = "PostgreSQL"
)

// outages kills whatever a scheme needs: in the first act all that only one of them needs,
// and in the second one the database of the links, under all.
func (e *experiment) outages(ctx context.Context) (err error) {
	e.enterOutages()
	var tickets [2]*testbed.Server
	var how setup
	if slices.ContainsFunc(e.schemes, func(s scheme) bool { return s.tickets }) {
		for i := range tickets {
			e.enter("starting a ticket database")
			if tickets[i], err = e.stage.bed.Postgres(ctx); err != nil {
				return err
			}
			how.tickets[i] = tickets[i].URL
		}
	}
	first := e.cast(ctx, how)
	others, err := scenario.Besides(ctx, func() error {
		return e.act(ctx, first, outageRate, func() error { return e.killOthers(ctx, first, tickets) })
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	e.enter("starting a PostgreSQL")
	links, err := e.stage.bed.Postgres(ctx, "max_connections=500") // nothing else is in it that it would have to recover
	if err != nil {
		return err
	}
	second := e.extras(ctx, links)
	more, err := scenario.Besides(ctx, func() error {
		return e.act(ctx, second, crowdRate, func() error { return e.killPostgres(ctx, second, links) })
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	e.JudgeLinks(e.links)
	e.judgeOutages()
	// What lasts without the supply is judged by the first act alone.
	e.Excuse(claimLocal, others)
	e.Excuse(claimStop, others)
	e.Excuse(claimComeBack, max(others, more))
	e.drawOutages()
	return nil
}

// cast are the actors of the first act: each scheme that needs something of its own, with
// and without a fallback.
func (e *experiment) cast(ctx context.Context, how setup) (actors []*actor) {
	for _, fallback := range []string{"none", "random"} {
		how.settings = []string{"FALLBACK=" + fallback}
		for _, s := range e.schemes {
			var victims []string
			switch {
			case s.redis:
				victims = []string{victimRedis}
			case s.service:
				victims = []string{victimService}
			case s.tickets:
				victims = []string{victimEven, victimTickets}
			}
			for _, r := range e.startAll(ctx, only(s, victims), how) {
				for _, victim := range victims {
					actors = append(actors, &actor{running: r, victim: victim, fallback: fallback})
				}
			}
		}
	}
	return actors
}

// only is the scheme, if it has victims.
func only(s scheme, victims []string) []scheme {
	if len(victims) == 0 {
		return nil
	}
	return []scheme{s}
}

// extras are the actors of the second act.
func (e *experiment) extras(ctx context.Context, links *testbed.Server) (actors []*actor) {
	for _, r := range e.startAll(ctx, e.schemes, setup{postgres: links.URL}) {
		actors = append(actors, &actor{running: r, victim: victimPostgres, fallback: "none"})
	}
	return actors
}

// act puts the load on every server, lets kill do its work, and judges what became of it.
func (e *experiment) act(ctx context.Context, actors []*actor, rate float64, kill func() error) (err error) {
	runs := runsOf(actors)
	defer e.dismiss(runs)
	links, err := newTraffics(runs)
	if err != nil {
		return err
	}
	defer links.close()
	for _, a := range actors {
		a.traffic = links[a.running]
	}
	e.enter("%.0f creations a second on each of %d servers", rate, len(runs))
	var flows []*scenario.Flow
	for _, t := range links {
		flows = append(flows, t.Start(ctx, rate))
	}
	pause(ctx, e.before)
	err = kill()
	pause(ctx, e.after)
	for _, f := range flows {
		err = errors.Join(err, f.End())
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	beside(ctx, e, actors, (*actor).name, e.keepFate)
	e.read(ctx, runs, links)
	return nil
}

// runsOf are the servers of actors, each once: it has one load, whatever is killed under it.
func runsOf(actors []*actor) (runs []*running) {
	for _, a := range actors {
		if !slices.Contains(runs, a.running) {
			runs = append(runs, a.running)
		}
	}
	return runs
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// keepFate looks up where each code came from, which the rows of the links tell.
func (e *experiment) keepFate(ctx context.Context, a *actor) error {
	sources := make(map[string]string)
	err := testbed.Query(ctx, a.links, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT code, source FROM links`)
		if err != nil {
			return err
		}
		var code, source string
		_, err = pgx.ForEachRow(rows, []any{&code, &source}, func() error { sources[code] = source; return nil })
		return err
	})
	if err != nil {
		return fmt.Errorf("look up the sources of codes: %w", err)
	}
	f := fateOf(a.traffic.Entries(), a.lost, a.back, func(code string) bool {
		return sources[code] == "random" && a.running.name != "random"
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	found := e.found[a.running.name]
	found.outages = append(found.outages, outageFound{victim: a.victim, fallback: a.fallback, fate: f})
	return nil
}
