package space

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"

	"github.com/jackc/pgx/v5"
)

const (
	sourcesLength = 3       // digits: a space that is filled in a second
	sourcesSize   = 238_328 // 62^3
	sourcesPool   = 5_000   // keys in a pool: fewer than are left in the end
	sourcesWidth  = 8       // creations at a time
	sourcesLinks  = 700     // of each source at each share
	// sourcesExact is how far the mean attempts may be from the prediction, as a share. The mean of
	// 700 geometric variables is within it in all but one of a thousand runs.
	sourcesExact = 0.12
	highest      = 0.9 // of the shares
	sameURL      = 100 // how often a hash gets the same URL
)

// shares are the shares of codes in use for all sources.
func shares() []float64 { return []float64{0, 0.5, highest} }

// attemptsRecord is what the experiment observes of all sources.
type attemptsRecord struct {
	sources.Observed
	mu       sync.Mutex              // the sources are measured side by side
	attempts map[measurement]float64 // per creation
}

// measurement names one figure of a source.
type measurement struct{ source, column string }

// at is the column of the creations with a share of the codes in use.
func at(share float64) string { return fmt.Sprintf("f = %g", share) }

// repeated is the column of a hash that gets the same URL again and again.
const repeated = "the same URL, per link"

func sourceClaims() []experiment.Claim[attemptsRecord] {
	on := func(name, text string, judge func(*attemptsRecord) experiment.Verdict) experiment.Claim[attemptsRecord] {
		return experiment.Claim[attemptsRecord]{Name: name, Text: text, Unit: "attempts", Kind: report.Correctness, Judge: judge}
	}
	within := func(of measurement, want, tolerance float64) func(*attemptsRecord) experiment.Verdict {
		return func(r *attemptsRecord) experiment.Verdict {
			attempts, measured := r.attempts[of]
			if !measured {
				return experiment.Verdict{}
			}
			return experiment.Within(want, attempts, tolerance)
		}
	}
	const same = float64(sameURL+1) / 2
	return append([]experiment.Claim[attemptsRecord]{
		on("one attempt however full", "A source that remembers what it has given out takes one attempt, however full the space is.", judgeRemembering),
		on("random codes take 1/(1-f)", "Random codes take 1/(1-f) attempts.", within(measurement{"random", at(highest)}, expected(highest), sourcesExact)),
		on("same URL", fmt.Sprintf("Each further link to the same URL takes a hash one attempt more: for %d links %.1f each on average.", sameURL, same),
			within(measurement{"hash", repeated}, same, 0)),
		sources.EachMeasured(func(r *attemptsRecord) *sources.Observed { return &r.Observed }),
	}, measure.Links(func(r *attemptsRecord) *loadtest.Verdict { return r.Links })...)
}

func keySources() *experiment.Experiment {
	return experiment.Define(experiment.Definition[attemptsRecord]{
		Name: "compare/space", Title: "Attempts of every key source as the space fills",
		Summary: fmt.Sprintf("There are %s codes of %d digits. A share f of them is given out and in use, and each key source then makes %d more links. "+
			"How many keys does a creation take until one is free?", report.Number(sourcesSize), sourcesLength, sourcesLinks),
		Suites: []experiment.Suite{experiment.Nightly}, Run: runKeySources, Show: showKeySources,
		Claims:   sourceClaims(),
		Controls: []experiment.Control{{Without: []string{"store"}, Refutes: measure.NoLostLink}},
	})
}

// judgeRemembering judges by the source that takes the most attempts.
func judgeRemembering(r *attemptsRecord) experiment.Verdict {
	worst, name := 0.0, ""
	for _, s := range sources.Compared() {
		if attempts := r.attempts[measurement{s.Name, at(highest)}]; s.Name != "random" && attempts > worst {
			worst, name = attempts, s.Name
		}
	}
	if name == "" {
		return experiment.Verdict{}
	}
	return experiment.AtMost(1, worst, "%s takes the most: %.4g attempts", name, worst)
}

// expected is how many attempts a random code takes with a share of the codes in use.
func expected(share float64) float64 {
	return sourcesSize / (sourcesSize - math.Round(share*sourcesSize) - float64(sourcesLinks)/2)
}

func runKeySources(t *experiment.T, rec *attemptsRecord) {
	rec.attempts = make(map[measurement]float64)
	stage := sources.NewStage(t)
	template, url := stage.Database("")
	server := lab.Server(t, "DATABASE_URL="+url, "KEY_SOURCE=random", "KGS_PERMUTE=false")
	server.Start() // it makes the tables
	server.Stop()
	filled := int64(0)
	for level, share := range shares() {
		t.Phase(float64(level)/3, "%d links of each key source, f = %g", sourcesLinks, share)
		n := int64(share * sourcesSize)
		lab.Execute(t, url, `INSERT INTO links (code, url, source, created_at)
			SELECT `+codeSQL(sourcesLength)+`, $3, 'alias', now() FROM generate_series($1::bigint, $2::bigint - 1) AS n`, filled, n, filler)
		filled = n
		all := launch(t, stage, template, n)
		stage.AwaitFull(all)
		well := rec.Each(all, func(r *sources.Running) error { return rec.measure(t.Context(), r, at(share)) })
		rec.ReadBack(t, well)
		sources.Kill(all)
	}
	rec.Complete = true
}

// launch starts a server with each source, whose databases are copies of template: the first n
// codes are links. No ledger permutes, so the codes of its numbers are known; attempts do not
// depend on it. The spaces of Snowflake, hash and UUID have one size, which is too large to fill.
func launch(t *experiment.T, stage *sources.Stage, template string, n int64) (all []*sources.Running) {
	for _, s := range sources.Compared() {
		if n > 0 && s.Class != sources.Random && s.Class != sources.Counter {
			continue
		}
		supply := stage.Supply(&s, template)
		if n > 0 {
			giveOut(t, &s, supply, n)
		}
		all = append(all, stage.Launch(&s, supply, fmt.Sprintf("CODE_LENGTH=%d", sourcesLength), fmt.Sprintf("KGS_POOL_CAPACITY=%d", sourcesPool), "KGS_PERMUTE=false"))
	}
	return all
}

// measure makes links and records how many attempts they take. The link before them makes the
// server report its metrics.
func (r *attemptsRecord) measure(ctx context.Context, source *sources.Running, column string) error {
	if err := source.One(ctx); err != nil {
		return err
	}
	err := r.count(source, column, sourcesLinks, sourcesWidth, func(int) error { return source.One(ctx) })
	if err != nil || source.Class != sources.Hash {
		return err
	}
	return r.count(source, repeated, sameURL, 1, func(int) error {
		o := source.Server.Client.Create(ctx, "https://loadtest.example/the-same")
		if o.State != loadtest.Acknowledged {
			return fmt.Errorf("another link to the same URL is %s: %s", o.State, o.Detail)
		}
		return nil
	})
}

// count makes n links, so many at a time, and records how many keys each takes by the count of
// the server.
func (r *attemptsRecord) count(source *sources.Running, column string, n, width int, link func(int) error) error {
	const taken = "kgs_keys_taken_total"
	before, err := source.Server.TryCounter(taken)
	if err != nil {
		return err
	}
	if err := together(n, width, link); err != nil {
		return err
	}
	after, err := source.Server.TryCounter(taken)
	if err == nil && after <= before {
		err = errors.New("the server counts no keys")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.attempts[measurement{source.Name, column}] = (after - before) / float64(n)
	}
	return err
}

// giveOut sets what a source remembers to the first n codes, which are the links in its database.
// It is the only place of the harness that knows the tables and keys of the sources.
func giveOut(t *experiment.T, s *sources.Source, supply *sources.Supply, n int64) {
	const ledger = `UPDATE kgs_spaces SET next = $1 WHERE length = 3`
	switch s.Name {
	case "random": // it remembers nothing
	case "kgs":
		lab.Execute(t, supply.Keys, ledger, n)
	case "postgres-pool-delete", "postgres-pool-reserve":
		lab.Execute(t, supply.Links, `INSERT INTO used_keys (id, key) SELECT 0, code FROM links`)
	case "redis-incr":
		var name string
		lab.Query(t, supply.Links, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT name FROM kgs_ledger`).Scan(&name)
		})
		t.Must(lab.RedisClient(t, supply.Redis).Set(t.Context(), "keypool:{"+name+"}:counter", n, 0).Err())
	case "ticket":
		n += n % 2
		lab.Execute(t, supply.Tickets[0], `SELECT setval('kgs_tickets_odd', $1)`, n+1)
		lab.Execute(t, supply.Tickets[1], `SELECT setval('kgs_tickets_even', $1)`, n+2)
	default:
		lab.Execute(t, supply.Links, ledger, n)
	}
}

func showKeySources(r *attemptsRecord, e *report.Experiment) {
	e.Settings = map[string]string{
		"CODE_LENGTH": fmt.Sprint(sourcesLength), "FALLBACK": "none", "KGS_PERMUTE": "false", "KGS_POOL_CAPACITY": fmt.Sprint(sourcesPool),
	}
	e.Notes = []string{
		"The share in use is links in the database, and the source is set to have given out exactly these: its ledger, counter, sequences, or list of used keys. " +
			"Attempts are the keys that the server counts as taken (kgs_keys_taken_total), per link.",
		"The spaces of Snowflake, hash and UUID have one size, which cannot be filled here. They are measured at f = 0 only.",
		"A pool in PostgreSQL draws at random too, but ahead of time: a key that conflicts with a used one never reaches the pool.",
	}
	table := report.Table{Title: "Attempts per creation", Columns: []string{"key source", at(0), at(0.5), at(highest), repeated}}
	for _, s := range sources.Compared() {
		cells := []string{s.Name}
		for _, column := range table.Columns[1:] {
			attempts, measured := r.attempts[measurement{s.Name, column}]
			if !measured {
				attempts = math.NaN()
			}
			cells = append(cells, report.Number(attempts))
		}
		table.Rows = append(table.Rows, cells)
	}
	var lines []report.Series
	for _, name := range []string{"random", "redis-pool", "redis-incr"} {
		line := report.Series{Name: name}
		for _, share := range shares() {
			if attempts, measured := r.attempts[measurement{name, at(share)}]; measured {
				line.XY = append(line.XY, [2]float64{share, attempts})
			}
		}
		lines = append(lines, line)
	}
	e.Tables, e.Charts = []report.Table{table}, []report.Chart{attemptsChart("Attempts as the space fills", lines...)}
}
