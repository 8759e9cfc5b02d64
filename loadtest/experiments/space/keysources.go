package space

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
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
	sameURL      = 100 // how often a hash gets the same URL
)

// shares are the shares of codes in use for all sources.
func shares() []float64 { return []float64{0, 0.5, 0.9} }

// attemptsRecord is what the experiment observes of all sources.
type attemptsRecord struct {
	sources.Observed
	found map[string]*found // by source
}

// found is what is observed of one source as its space fills.
type found struct {
	attempts  [3]float64 // per creation, by share; NaN where it was not measured, as all others
	conflicts [3]float64 // per creation
	repeated  float64    // attempts per creation of the same URL, of a hash only
}

func unmeasured() *found {
	none := [3]float64{math.NaN(), math.NaN(), math.NaN()}
	return &found{attempts: none, conflicts: none, repeated: math.NaN()}
}

// last is the attempts per creation at the highest share.
func (f *found) last() float64 { return f.attempts[len(f.attempts)-1] }

func sourceClaims() []experiment.Claim[attemptsRecord] {
	return append([]experiment.Claim[attemptsRecord]{
		{
			Name: "one attempt however full", Text: "A source that remembers what it has given out takes one attempt, however full the space is.",
			Unit: "attempts", Kind: report.Correctness, Judge: judgeRemembering,
		},
		{
			Name: "random codes take 1/(1-f)", Text: "Random codes take 1/(1-f) attempts.", Unit: "attempts", Kind: report.Correctness,
			Judge: func(r *attemptsRecord) experiment.Verdict {
				f := r.found["random"]
				if f == nil || math.IsNaN(f.last()) {
					return experiment.Verdict{}
				}
				return experiment.Within(expected(slices.Max(shares())), f.last(), sourcesExact)
			},
		},
		{
			Name: "same URL", Unit: "attempts", Kind: report.Correctness,
			Text: fmt.Sprintf("Each further link to the same URL takes a hash one attempt more: for %d links %.1f each on average.", sameURL, float64(sameURL+1)/2),
			Judge: func(r *attemptsRecord) experiment.Verdict {
				f := r.found["hash"]
				if f == nil || math.IsNaN(f.repeated) {
					return experiment.Verdict{}
				}
				return experiment.Within(float64(sameURL+1)/2, f.repeated, 0)
			},
		},
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
		if f := r.found[s.Name]; f != nil && s.Name != "random" && f.last() > worst {
			worst, name = f.last(), s.Name
		}
	}
	if worst == 0 {
		return experiment.Verdict{}
	}
	return experiment.AtMost(1, worst, "%s takes the most: %.4g attempts", name, worst)
}

// expected is how many attempts a random code takes with a share of the codes in use.
func expected(share float64) float64 {
	return sourcesSize / (sourcesSize - math.Round(share*sourcesSize) - float64(sourcesLinks)/2)
}

func runKeySources(t *experiment.T, rec *attemptsRecord) {
	rec.found = make(map[string]*found)
	stage := sources.NewStage(t)
	t.Phase(0, "filling the space")
	templates := fillTemplates(t, stage)
	for level, share := range shares() {
		t.Phase(float64(level+1)/4, "%d links of each key source, f = %g", sourcesLinks, share)
		var all []*sources.Running
		for _, s := range sources.Compared() {
			if share > 0 && !fillable(&s) {
				continue
			}
			at := stage.Supply(&s, templates[level])
			if share > 0 {
				giveOut(t, &s, at, int64(share*sourcesSize))
			}
			if rec.found[s.Name] == nil {
				rec.found[s.Name] = unmeasured()
			}
			all = append(all, stage.Launch(&s, at, fmt.Sprintf("CODE_LENGTH=%d", sourcesLength), fmt.Sprintf("KGS_POOL_CAPACITY=%d", sourcesPool), "KGS_PERMUTE=false"))
		}
		stage.AwaitFull(all)
		well := rec.Each(all, func(r *sources.Running) error { return rec.found[r.Name].measure(t.Context(), r, level) })
		rec.ReadBack(t, well)
		sources.Kill(all)
	}
	rec.Complete = true
}

// fillable reports whether the space of a source can be in use to a share: those of Snowflake,
// hash and UUID have one size, and are too large.
func fillable(s *sources.Source) bool {
	return s.Class == sources.Random || s.Class == sources.Counter
}

// measure makes links and records how many attempts they take. The link before them makes the
// server report its metrics.
func (f *found) measure(ctx context.Context, r *sources.Running, level int) error {
	err := r.One(ctx)
	if err != nil {
		return err
	}
	f.attempts[level], f.conflicts[level], err = attemptsOf(r.Server, func() error { return manyLinks(ctx, r) })
	if err != nil || r.Class != sources.Hash {
		return err
	}
	f.repeated, _, err = attemptsOf(r.Server, func() error {
		for range sameURL {
			if o := r.Server.Client.Create(ctx, "https://loadtest.example/the-same"); o.State != loadtest.Acknowledged {
				return fmt.Errorf("another link to the same URL is %s: %s", o.State, o.Detail)
			}
		}
		return nil
	})
	return err
}

// manyLinks makes links, some at a time.
func manyLinks(ctx context.Context, r *sources.Running) error {
	var clients errgroup.Group
	clients.SetLimit(sourcesWidth)
	for range sourcesLinks {
		clients.Go(func() error { return r.One(ctx) })
	}
	return clients.Wait()
}

// attemptsOf is how many keys a creation takes while links are made, and how many of them other
// links have, by the counts of the server.
func attemptsOf(server *lab.Program, links func() error) (attempts, conflicts float64, err error) {
	count := func() (n [3]float64, err error) {
		for i, name := range []string{"shortener_links_created_total", "kgs_keys_taken_total", "kgs_key_conflicts_total"} {
			value, counted := server.TryCounter(name)
			n[i], err = value, errors.Join(err, counted)
		}
		return n, err
	}
	before, err := count()
	if err == nil {
		err = links()
	}
	if err != nil {
		return 0, 0, err
	}
	after, err := count()
	made := after[0] - before[0]
	if err == nil && made == 0 {
		err = errors.New("the server counts no links")
	}
	return (after[1] - before[1]) / made, (after[2] - before[2]) / made, err
}

// fillTemplates makes a database for each share, in which the first codes are links. Its
// ledger does not permute, so the codes of its numbers are known; attempts do not depend on it.
func fillTemplates(t *experiment.T, stage *sources.Stage) (names []string) {
	template, filled := "", int64(0)
	for i, share := range shares() {
		name, url := stage.Database(template)
		if i == 0 {
			server := lab.Server(t, "DATABASE_URL="+url, "KEY_SOURCE=random", "KGS_PERMUTE=false")
			server.Start()
			server.Stop()
		}
		n := int64(share * sourcesSize)
		lab.Execute(t, url, `INSERT INTO links (code, url, source, created_at)
			SELECT `+codeSQL(sourcesLength)+`, $3, 'alias', now() FROM generate_series($1::bigint, $2::bigint - 1) AS n`, filled, n, filler)
		awaitUnused(t, url)
		names, template, filled = append(names, name), name, n
	}
	return names
}

// awaitUnused waits until nothing is connected to a database, which can be a template then.
func awaitUnused(t *experiment.T, url string) {
	lab.Wait(t, lab.Patience, "the database is not used", func() (unused bool) {
		lab.Query(t, url, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&unused)
		})
		return unused
	})
}

// giveOut sets what a source remembers to the first n codes, which are the links in its database.
// It is the only place of the harness that knows the tables and keys of the sources.
func giveOut(t *experiment.T, s *sources.Source, at *sources.Supply, n int64) {
	const ledger = `UPDATE kgs_spaces SET next = $1 WHERE length = 3`
	switch s.Name {
	case "random": // it remembers nothing
	case "kgs":
		lab.Execute(t, at.Keys, ledger, n)
	case "postgres-pool-delete", "postgres-pool-reserve":
		lab.Execute(t, at.Links, `INSERT INTO used_keys (id, key) SELECT 0, code FROM links`)
	case "redis-incr":
		var name string
		lab.Query(t, at.Links, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT name FROM kgs_ledger`).Scan(&name)
		})
		t.Must(lab.RedisClient(t, at.Redis).Set(t.Context(), "keypool:{"+name+"}:counter", n, 0).Err())
	case "ticket":
		n += n % 2
		lab.Execute(t, at.Tickets[0], `SELECT setval('kgs_tickets_odd', $1)`, n+1)
		lab.Execute(t, at.Tickets[1], `SELECT setval('kgs_tickets_even', $1)`, n+2)
	default:
		lab.Execute(t, at.Links, ledger, n)
	}
}

func showKeySources(r *attemptsRecord, e *report.Experiment) {
	e.Settings = map[string]string{
		"CODE_LENGTH": fmt.Sprint(sourcesLength), "FALLBACK": "none", "KGS_PERMUTE": "false", "KGS_POOL_CAPACITY": fmt.Sprint(sourcesPool),
	}
	e.Notes = []string{
		"The share in use is links in the database, and the source is set to have given out exactly these: its ledger, counter, sequences, or list of used keys. " +
			"The pools and the ledger do not permute here, which does not change the attempts.",
		"Attempts are kgs_keys_taken_total over shortener_links_created_total, as the server counts them.",
		"The spaces of Snowflake, hash and UUID have one size, which cannot be filled here. They are measured at f = 0 only.",
		"A pool in PostgreSQL draws at random too, but ahead of time: a key that conflicts with a used one never reaches the pool.",
	}
	t := report.Table{Title: "Attempts per creation", Columns: []string{"key source"}}
	for _, share := range shares() {
		t.Columns = append(t.Columns, fmt.Sprintf("f = %g", share))
	}
	t.Columns = append(t.Columns, "conflicts at the last", "the same URL, per link")
	chart := report.Chart{
		Title: "Attempts as the space fills", X: report.Axis{Label: "share f of the codes in use"}, Y: report.Axis{Label: "attempts per creation", Log: true},
	}
	for _, s := range sources.Compared() {
		f := r.found[s.Name]
		if f == nil {
			f = unmeasured()
		}
		cells, line := []string{s.Name}, report.Series{Name: s.Name}
		for i, v := range f.attempts {
			cells = append(cells, report.Number(v))
			line.XY = append(line.XY, [2]float64{shares()[i], v})
		}
		t.Rows = append(t.Rows, append(cells, report.Number(f.conflicts[len(shares())-1]), report.Number(f.repeated)))
		if slices.Contains([]string{"random", "redis-pool", "redis-incr"}, s.Name) {
			chart.Series = append(chart.Series, line)
		}
	}
	law := report.Series{Name: "1/(1-f)", Predicted: true}
	for f := 0.0; f < 0.905; f += 0.02 {
		law.XY = append(law.XY, [2]float64{f, 1 / (1 - f)})
	}
	chart.Series = append(chart.Series, law)
	e.Tables, e.Charts = []report.Table{t}, []report.Chart{chart}
}
