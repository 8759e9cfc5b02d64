package compare

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"

	"github.com/jackc/pgx/v5"
)

const (
	outageRate = 200 // creations per second on each server
	crowdRate  = 50  // likewise while all servers are on one PostgreSQL that is killed

	loadBefore = 4 * time.Second // until something is killed
	loadHalf   = 3 * time.Second // from the first kill to the second one, and from there to the restart
	loadAfter  = 5 * time.Second // when everything is back
	inFlight   = time.Second     // for creations in progress to get their answers

	leastLocal = 0.4 // s that local keys last at least: nearly a batch of a hundred
	mostStop   = 0.3 // s that a counter serves without its supply at most
	mostBack   = 4.5 // s from the restart until a key source serves again
)

// What is killed.
const (
	theRedis    = "Redis"
	theService  = "key service"
	evenTickets = "even tickets"
	bothTickets = "both tickets"
	thePostgres = "PostgreSQL"
)

func outageClaims() []experiment.Claim[record] {
	claim := func(name, text, unit string, kind report.Kind, about func(*sources.Source, *outage) bool, judge func(*record, []*outage) experiment.Verdict) experiment.Claim[record] {
		return experiment.Claim[record]{Name: name, Text: text, Unit: unit, Kind: kind, Judge: func(r *record) experiment.Verdict {
			some := r.outagesOf(about)
			if len(some) == 0 {
				return experiment.Verdict{}
			}
			return judge(r, some)
		}}
	}
	local := func(a, b *outage) int { return cmp.Compare(a.local, b.local) }
	without := func(how supplied) func(*sources.Source, *outage) bool {
		return func(s *sources.Source, o *outage) bool { return o.stops() && suppliedOf(s) == how }
	}
	return []experiment.Claim[record]{
		claim("local keys bridge a moment", fmt.Sprintf("Without their supply, key sources that take keys ahead go on for at least %.1f s with the keys that they hold.", leastLocal), "s",
			report.Speed, without(ahead), func(r *record, some []*outage) experiment.Verdict {
				least := slices.MinFunc(some, local)
				return experiment.AtLeast(leastLocal, least.local.Seconds(), "the shortest time: %s with %s", least.name, tenths(least.local)).Unless(r.unfitSupplies)
			}),
		claim("a counter stops at once", fmt.Sprintf("Without their supply, the counter in Redis and the tickets go on for at most %.1f s.", mostStop), "s",
			report.Speed, without(perKey), func(r *record, some []*outage) experiment.Verdict {
				most := slices.MaxFunc(some, local)
				return experiment.AtMost(mostStop, most.local.Seconds(), "the longest time: %s with %s", most.name, tenths(most.local)).Unless(r.unfitSupplies)
			}),
		claim("one ticket database is enough", "While one of two ticket databases is down, every creation is served.", "creations", report.Correctness,
			func(_ *sources.Source, o *outage) bool { return o.victim == evenTickets },
			func(_ *record, some []*outage) experiment.Verdict {
				return noneUnserved(some, func(o *outage) int { return o.all() - o.served })
			}),
		claim("the fallback makes every link", "With the default fallback, every creation is served while anything but the database of the links is down.", "creations", report.Correctness,
			func(_ *sources.Source, o *outage) bool { return o.fallback == random && o.victim != evenTickets },
			func(_ *record, some []*outage) experiment.Verdict {
				return noneUnserved(some, func(o *outage) int { return o.refused + o.unknown })
			}),
		claim("refusals say when to retry", "Every creation that is not served is refused with 503 and Retry-After.", "outages", report.Correctness,
			func(_ *sources.Source, o *outage) bool { return len(o.answers) > 0 },
			func(_ *record, some []*outage) experiment.Verdict {
				rude := names(some, func(o *outage) bool { return !o.polite() })
				return experiment.None(int64(len(rude)), "in %d of %d outages there are others%s", len(rude), len(some), list(rude))
			}),
		claim("each recovers by itself", fmt.Sprintf("Within %.1f s of the restart of what was killed, each key source serves every creation again, without intervention.", mostBack), "s",
			report.Speed, func(_ *sources.Source, o *outage) bool { return o.victim != evenTickets }, // there the other one is killed before it is back
			func(r *record, some []*outage) experiment.Verdict {
				worst := slices.MaxFunc(some, func(a, b *outage) int { return cmp.Compare(a.back, b.back) })
				late := names(some, func(o *outage) bool { return !o.returned })
				return experiment.Holds(len(late) == 0 && worst.back.Seconds() <= mostBack, "the last: %s after %s; %d do not serve again by the end%s",
					worst.name, tenths(worst.back), len(late), list(late)).Figures(mostBack, worst.back.Seconds()).Unless(strings.TrimSpace(r.unfitSupplies + " " + r.unfitPostgres))
			}),
	}
}

// noneUnserved is the verdict that every creation of the outages is served.
func noneUnserved(some []*outage, unserved func(*outage) int) experiment.Verdict {
	n := 0
	for _, o := range some {
		n += unserved(o)
	}
	return experiment.None(int64(n), "%d creations are not served in %d outages", n, len(some))
}

// outagesOf are the outages that a claim is about, in the order of the key sources.
func (r *record) outagesOf(about func(*sources.Source, *outage) bool) (some []*outage) {
	r.eachFound(func(s *sources.Source, f *found) {
		for _, o := range f.outages {
			if about(s, o) {
				some = append(some, o)
			}
		}
	})
	return some
}

// names describes the outages for which bad is true.
func names(some []*outage, bad func(*outage) bool) (names []string) {
	for _, o := range some {
		if bad(o) {
			names = append(names, fmt.Sprintf("%s without %s, FALLBACK=%s (%s)", o.name, o.victim, o.fallback, o.answered()))
		}
	}
	return names
}

func list(names []string) string { return strings.Join(append([]string{""}, names...), "; ") }

// actor is a server under load while something that it needs is killed.
type actor struct {
	*sources.Running
	fallback string
	victims  []string
}

// window is from a kill to the restart.
type window struct{ lost, back time.Time }

// outages kills everything that only some key sources need, and then the database of the links,
// under all.
func (r *record) outages(t *experiment.T, stage *sources.Stage) {
	t.Phase(0.72, "starting Redis and ticket databases")
	redis, tickets := lab.Redis(t), []*lab.Database{lab.Postgres(t), lab.Postgres(t)}
	var actors []actor
	var services []*lab.Program
	for _, fallback := range []string{"none", random} {
		for _, s := range sources.Compared() {
			victims := victimsOf(&s)
			if len(victims) == 0 {
				continue
			}
			at := stage.Supply(&s, "")
			if s.Redis {
				at.Redis = fmt.Sprintf("%s/%d", redis.URL, 1+len(actors))
			}
			for i := range at.Tickets {
				if s.Tickets {
					at.Tickets[i] = lab.CreateDatabase(t, tickets[i].URL, "tickets_"+fallback, "")
				}
			}
			one := stage.Launch(&s, at, "FALLBACK="+fallback, fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys))
			actors = append(actors, actor{one, fallback, victims})
			if s.Service {
				services = append(services, at.Service)
			}
		}
	}
	r.unfitSupplies = r.act(t, stage, actors, 0.75, outageRate, func(w map[string]*window) { killSupplies(t, redis, services, tickets, w) })

	t.Phase(0.79, "starting another PostgreSQL")
	other := sources.NewStage(t) // it holds nothing else that it would have to recover
	actors = nil
	for _, s := range sources.Compared() {
		one := other.Launch(&s, other.Supply(&s, ""), fmt.Sprintf("KGS_POOL_CAPACITY=%d", poolKeys))
		actors = append(actors, actor{one, "none", []string{thePostgres}})
	}
	r.unfitPostgres = r.act(t, other, actors, 0.81, crowdRate, func(w map[string]*window) {
		lab.Execute(t, other.Postgres.URL, `CHECKPOINT`) // how long the recovery takes does not depend on a key source
		other.Postgres.Kill()
		w[thePostgres].lost = time.Now()
		lab.Pause(t, loadHalf)
		w[thePostgres].back = time.Now()
		other.Postgres.Restart()
	})
}

func victimsOf(s *sources.Source) []string {
	switch {
	case s.Redis:
		return []string{theRedis}
	case s.Service:
		return []string{theService}
	case s.Tickets:
		return []string{evenTickets, bothTickets}
	}
	return nil
}

// killSupplies kills Redis, the key services and one ticket database, then the other one, and
// starts all again.
func killSupplies(t *experiment.T, redis *lab.Database, services []*lab.Program, tickets []*lab.Database, w map[string]*window) {
	redis.Kill()
	w[theRedis].lost = time.Now()
	for _, s := range services {
		s.Kill()
	}
	w[theService].lost = time.Now()
	tickets[1].Kill()
	w[evenTickets].lost = time.Now()
	lab.Pause(t, loadHalf)
	w[evenTickets].back = time.Now()
	lab.Pause(t, inFlight) // the second kill must not fail creations that were due before
	tickets[0].Kill()
	w[bothTickets].lost = time.Now()
	lab.Pause(t, loadHalf)
	w[theRedis].back = time.Now()
	redis.Restart()
	w[theService].back = time.Now()
	for _, s := range services {
		s.Launch()
	}
	w[bothTickets].back = time.Now() // PostgreSQL recovers, so it is last
	for _, d := range tickets {
		d.Restart()
	}
}

// act loads every server, kills and restarts what kill says, and records what became of the
// creations. It returns why the environment was unfit to measure times.
func (r *record) act(t *experiment.T, stage *sources.Stage, actors []actor, done, rate float64, kill func(map[string]*window)) (unfit string) {
	var all []*sources.Running
	for _, a := range actors {
		all = append(all, a.Running)
	}
	stage.AwaitFull(all)
	environment := measure.Observe()
	t.Phase(done, "%.0f creations per second on each of %d servers", rate, len(all))
	for _, one := range all {
		one.Load.Start(rate)
	}
	lab.Pause(t, loadBefore)
	windows := map[string]*window{theRedis: {}, theService: {}, evenTickets: {}, bothTickets: {}, thePostgres: {}}
	kill(windows)
	lab.Pause(t, loadAfter)
	for _, one := range all {
		one.Load.Stop()
	}
	unfit = environment.Unfit()
	for _, a := range actors {
		fallback, err := fallbackCodes(t.Context(), &a)
		if err != nil {
			r.fail(a.Name, fmt.Errorf("look up the sources of codes: %w", err))
			continue
		}
		for _, victim := range a.victims {
			o := observe(a.Load.Entries(), *windows[victim], func(code string) bool { return fallback[code] })
			o.name, o.victim, o.fallback = a.Name, victim, a.fallback
			if o.all() == 0 { // the machine is so busy that the load stood still
				r.fail(a.Name, fmt.Errorf("no creation was due without %s", victim))
				continue
			}
			r.found[a.Name].outages = append(r.found[a.Name].outages, o)
		}
	}
	r.ReadBack(t, all)
	sources.Kill(all)
	return unfit
}

// fallbackCodes are the codes of links that the fallback made, as the rows of the links say.
func fallbackCodes(ctx context.Context, a *actor) (codes map[string]bool, err error) {
	codes = make(map[string]bool)
	if a.Name == random {
		return codes, nil
	}
	err = lab.TryQuery(ctx, a.At.Links, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT code FROM links WHERE source = $1`, random)
		if err != nil {
			return err
		}
		var code string
		_, err = pgx.ForEachRow(rows, []any{&code}, func() error { codes[code] = true; return nil })
		return err
	})
	return codes, err
}

func (r *record) showOutages(e *report.Experiment) {
	e.Notes = append(e.Notes,
		fmt.Sprintf("Outages: under %d creations per second each, whatever a key source needs is killed with SIGKILL for some seconds and started again: Redis, which keeps nothing; the key "+
			"service; one ticket database and then both. Then, under %d per second each, it is the PostgreSQL with all the links.", outageRate, crowdRate),
		"Where a code came from is what its row in the database says. Local keys are those in memory when the supply is killed; how many these are depends on the rate before.",
		"PostgreSQL holds the links too, so without it no link can be made. All servers use it then, and come back at once.",
		"Redis comes back empty: the pool is filled anew, and the counter begins anew, over links that exist. A counter then runs into conflicts, each with a longer step to the next number.",
		"A creation counts by when it was due; a key source serves again after the last creation since the restart began that it did not serve itself.")
	table := report.Table{Title: "During the outage, and after it", Columns: []string{
		"key source", "killed", "FALLBACK", "creations during the outage", "refusals", "local keys last", "serves again after",
	}}
	for _, o := range r.outagesOf(func(*sources.Source, *outage) bool { return true }) {
		table.Rows = append(table.Rows, []string{o.name, o.victim, o.fallback, o.String(), o.answered(), o.lasting(), o.again()})
	}
	e.Tables = append(e.Tables, table)
	e.Charts = append(e.Charts, chart("How long creations go on without the supply", "time", "s", r.collect("local keys last", func(f *found) (values []float64) {
		for _, o := range f.outages {
			if o.stops() {
				values = append(values, o.local.Seconds())
			}
		}
		return values
	})))
}
