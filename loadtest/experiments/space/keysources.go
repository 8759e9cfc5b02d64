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
)

const (
	sourcesLength = 3       // characters of a code; the experiment fills this small space in a second
	sourcesSize   = 238_328 // 62^3
	sourcesPool   = 5_000   // keys in a pool, fewer than the codes that are free at the end
	sourcesWidth  = 8       // greatest number of creations in progress
	sourcesLinks  = 700     // links of one measurement, which is about one key source at one share of codes in use
	// sourcesExact is the allowed difference of the mean attempts from the prediction, as a share of
	// the prediction. The mean of 700 geometric variables differs by more in one of a thousand runs.
	sourcesExact = 0.12
	highest      = 0.9 // highest share of codes in use
	sameURL      = 100 // number of links that a server with the key source hash creates, all to one URL
)

// shares returns the shares of codes in use at which key sources are measured.
func shares() []float64 { return []float64{0, 0.5, highest} }

// attemptsRecord holds what the experiment observes of all key sources.
type attemptsRecord struct {
	sources.Observed
	mu       sync.Mutex              // protects attempts, because key sources are measured concurrently
	attempts map[measurement]float64 // attempts per creation
}

// measurement identifies one figure of a key source.
type measurement struct{ source, column string }

// at returns the name of the column for a share of the codes in use.
func at(share float64) string { return fmt.Sprintf("f = %g", share) }

// repeated is the name of the column for repeated creations with the same URL.
const repeated = "one URL for all links"

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
		on("one attempt, however full the space is", "With a key source that records which codes it has given out, a creation takes one attempt, however full the space is. An attempt is one code that the creation tries.", judgeRemembering),
		on("random codes take 1/(1-f) attempts", "With random codes, a creation tries 1/(1-f) codes on average, where f is the share of codes in use.", within(measurement{"random", at(highest)}, expected(highest), sourcesExact)),
		on("attempts of a hash for the same URL", fmt.Sprintf("If codes are hashes of the URL, each link to the same URL takes one attempt more than the link before it. An attempt is one code that the creation tries. For %d links, the average is %.1f attempts per link.", sameURL, same),
			within(measurement{"hash", repeated}, same, 0)),
		sources.EachMeasured(func(r *attemptsRecord) *sources.Observed { return &r.Observed }),
	}, measure.Links(func(r *attemptsRecord) *loadtest.Verdict { return r.Links })...)
}

func keySources() *experiment.Experiment {
	return experiment.Define(experiment.Definition[attemptsRecord]{
		Name: "compare/space", Title: "Attempts of every key source as the space fills",
		Summary: fmt.Sprintf("There are %s codes of %d characters. A share f of them is given out and in use. With each key source, a server then creates %d more links. "+
			"The experiment counts how many keys a creation tries until a key is free.", report.Number(sourcesSize), sourcesLength, sourcesLinks),
		Suites: []experiment.Suite{experiment.Nightly}, Run: runKeySources, Show: showKeySources,
		Claims:   sourceClaims(),
		Controls: []experiment.Control{{Without: []string{"store"}, Refutes: measure.NoLostLink}},
	})
}

// judgeRemembering judges the key source that takes the most attempts. It leaves out the key source random.
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
	return experiment.AtMost(1, worst, "the key source %s takes the most attempts, which are %.4g per creation", name, worst)
}

// expected returns the mean number of attempts of random codes, for sourcesLinks links. share is the
// share of the codes in use before these links.
func expected(share float64) float64 {
	return sourcesSize / (sourcesSize - math.Round(share*sourcesSize) - float64(sourcesLinks)/2)
}

func runKeySources(t *experiment.T, rec *attemptsRecord) {
	rec.attempts = make(map[measurement]float64)
	stage := sources.NewStage(t)
	template, url := stage.Database("")
	server := lab.Server(t, "DATABASE_URL="+url, "KEY_SOURCE=random", "KGS_PERMUTE=false")
	server.Start() // creates the tables
	server.Stop()
	filled := int64(0)
	for level, share := range shares() {
		t.Phase(float64(level)/3, "%d links of each key source, f = %g", sourcesLinks, share)
		n := int64(share * sourcesSize)
		lab.Execute(t, url, `INSERT INTO ranked_links (rank, code, url, source, created_at)
			SELECT n + `+rankSQL(sourcesLength)+`, `+codeSQL(sourcesLength)+`, $3, 'alias', now() FROM generate_series($1::bigint, $2::bigint - 1) AS n`, filled, n, filler)
		filled = n
		all := launch(t, stage, template, n)
		stage.AwaitFull(all)
		well := rec.Each(all, func(r *sources.Running) error { return rec.measure(t.Context(), r, at(share)) })
		rec.ReadBack(t, well)
		sources.Kill(all)
	}
	rec.Complete = true
}

// launch starts a server for each key source. The databases of each server are copies of template, in which links
// have the first n codes. The ledgers do not permute their numbers, so that launch knows which codes they have given out.
// The permutation does not affect the result: with permuted numbers, a creation takes the same number of attempts. If n
// is not 0, launch leaves out Snowflake, hash and UUID, because the size of their spaces is fixed and too large to fill.
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

// measure makes links and records how many attempts they take. Before these links it makes one link,
// so that the server reports its metrics.
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
			return fmt.Errorf("the state of a repeated creation with the same URL is %s: %s", o.State, o.Detail)
		}
		return nil
	})
}

// count makes n links, with at most width creations in progress. It records how many keys a link takes, as counted by the
// server.
func (r *attemptsRecord) count(source *sources.Running, column string, n, width int, link func(int) error) error {
	const taken = "kgs_keys_taken_total"
	before, err := source.Server.TryCounter(taken)
	if err != nil {
		return err
	}
	if err := lab.Together(n, width, link); err != nil {
		return err
	}
	after, err := source.Server.TryCounter(taken)
	if err == nil && after <= before {
		err = errors.New("the server counted no keys in " + taken)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.attempts[measurement{source.Name, column}] = (after - before) / float64(n)
	}
	return err
}

// giveOut sets the state of a key source as if it had given out the first n codes. Links in the database already have these
// codes. This function depends on the names of the tables and Redis keys of the key sources.
func giveOut(t *experiment.T, s *sources.Source, supply *sources.Supply, n int64) {
	const ledger = `UPDATE kgs_spaces SET next = $1 WHERE length = 3`
	switch s.Name {
	case "random": // it has no state
	case "kgs":
		lab.Execute(t, supply.Keys, ledger, n)
	case "postgres-pool-delete", "postgres-pool-reserve":
		lab.Execute(t, supply.Links, `INSERT INTO used_keys (id, key) SELECT 0, code FROM all_links`)
	case "redis-incr":
		name := lab.Value[string](t, supply.Links, `SELECT name FROM kgs_ledger`)
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
		"The codes in use are codes of links in the database. The experiment also sets the ledger, the counter, the sequences or the list of used keys to the state in which the key source has given out exactly these codes. " +
			"The attempts per link are the keys that the server counts as taken (kgs_keys_taken_total), divided by the number of links.",
		"The spaces of Snowflake, hash and UUID have a fixed size and are too large to fill. These key sources are measured only at f = 0.",
		"The codes of a pool in PostgreSQL are random, too, but they are drawn in advance. A key that conflicts with a used key never reaches the pool.",
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
	e.Tables = []report.Table{table}
}
