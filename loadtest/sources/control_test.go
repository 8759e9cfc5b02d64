//go:build drill

package sources

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"

	"keypool/loadtest/testbed"

	"github.com/jackc/pgx/v5"
)

// control is a source that is broken on purpose, and the rule that has to find it out.
type control struct {
	name    string
	from    string                              // the source that is broken
	flaw    string                              // the setting that breaks it
	without []string                            // the controls that break its programs (package controls)
	on      func(context.Context, *stand) error // what it draws on
	rule    func(context.Context, *stand) error
	finds   string
}

// brokenOnes has at least one control for each rule, in the order of the rules.
func brokenOnes() []control {
	killing, freezing := faults()[0], faults()[1]
	return []control{
		{"codes twice", "ledger", "", []string{"once", "conflict"}, nil, unique, `[1-9]\d* there twice`},
		{"another's codes", "random", "CODE_LENGTH=7", nil, nil, unique, `does not match`},
		{"lost links", "random", "", []string{"store"}, nil, unique, `[1-9]\d* are lost`},
		{"codes twice, of a pool", "redis-pool", "", []string{"once", "conflict"}, onRedis, shared, `[1-9]\d* there twice`},
		{"keys kept", "ledger", "", []string{"handback"}, nil, stopped, `stopped have [1-9]\d* keys`},
		{"keys kept, of a pool", "postgres-pool", "", []string{"handback"}, nil, stopped, `stopped have [1-9]\d* keys`},
		{"answers before the commit", "random", "", []string{"commit"}, onSlowCommits, killedAtLast, `[1-9]\d* are lost`},
		{"one for two, killed", "ticket", "", nil, onOneTicketer, surviving(killing), `creations failed`},
		{"one for two, frozen", "ticket", "", nil, onOneTicketer, surviving(freezing), `creations failed`},
		{"no fallback", "redis-pool", "FALLBACK=none", nil, onRedis, goingWithout(killing), `although there is a fallback`},
		{"endless waits, killed", "redis-pool", "", []string{"patience"}, onRedis, goingWithout(killing), `refused after \S+, which is over`},
		{"endless waits, frozen", "redis-pool", "", []string{"patience"}, onRedis, goingWithout(freezing), `refused after \S+, which is over`},
		{"no recovery", "redis-pool", "KGS_WORKER=false", nil, onMortalWorker, goingWithout(killing), `the source does not serve`},
		{"promises without a database", "random", "", []string{"store"}, nil, refusesAll, `is answered 201`},
		{"codes twice, by the harness", "ledger", "", []string{"once", "conflict"}, nil, harness, `exit status 1; it said:(?s:.*)FAILED +no code twice`},
		{"a hole in the ledger", "ledger", "", nil, nil, accountsOfLess, `exit status 1: the accounts do not close, by [1-9]\d* keys`},
	}
}

// A source that is broken on purpose is found out by the rule that it breaks.
func TestBrokenSources(t *testing.T) {
	built := make(map[string]string) // the directory of the programs, by the name of the control
	for _, c := range brokenOnes() {
		var err error
		if built[c.name], err = programs.drill.Build(t.Context(), c.without, "shortener", "kgs"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range brokenOnes() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := broken(t, c.from, c.flaw)
			s.on = c.on
			err := c.rule(t.Context(), newStand(t, s, built[c.name]))
			if err == nil || !regexp.MustCompile(c.finds).MatchString(err.Error()) {
				t.Errorf("it was not found out: no %q in %v", c.finds, err)
			}
		})
	}
}

// broken is a source of the table with one more setting.
func broken(t *testing.T, name, flaw string) source {
	t.Helper()
	for _, s := range table() {
		if s.name == name {
			if flaw != "" {
				s.settings = append(slices.Clone(s.settings), flaw)
			}
			return s
		}
	}
	t.Fatalf("there is no source %s", name)
	return source{}
}

// killedAtLast is killed, but what only waits for its commit is given the time for it: a kill
// alone loses links.
func killedAtLast(ctx context.Context, st *stand) error {
	if err := st.kill(ctx); err != nil {
		return err
	}
	if err := testbed.Pause(ctx, time.Second); err != nil {
		return err
	}
	return st.judge(ctx, st.helped)
}

// onSlowCommits has each commit take a tenth of a second: links wait for theirs at any
// moment, also in that of a kill.
func onSlowCommits(_ context.Context, st *stand) error {
	st.settings = append(st.settings, "DATABASE_URL="+st.postgres.URL+"&commit_delay=100000&commit_siblings=0")
	return nil
}

// onMortalWorker is onRedis with a pool that is filled by a worker of its own, which dies
// whenever it has opened a new epoch; the first one it survives.
func onMortalWorker(ctx context.Context, st *stand) error {
	if err := onRedis(ctx, st); err != nil {
		return err
	}
	worker, err := st.bed.Worker(ctx, append(slices.Clone(st.settings), "KEYPOOL_FAILPOINTS=epoch:opened=kill:2")...)
	st.workers = []*testbed.Program{worker}
	return err
}

// onOneTicketer is onTickets, but one of the two gives both the odd and the even numbers.
func onOneTicketer(ctx context.Context, st *stand) error {
	if err := onTickets(ctx, st); err != nil {
		return err
	}
	st.settings = append(st.settings, "TICKET_DATABASE_URLS="+st.draws[0].URL+","+st.draws[0].URL)
	return nil
}

// accountsOfLess is accounts after the ledger has lost a row of those whose keys are nobody's.
func accountsOfLess(ctx context.Context, st *stand) error {
	if err := st.strict.Stop(); err != nil {
		return err
	}
	err := testbed.Query(ctx, st.postgres.URL, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `DELETE FROM kgs_ranges WHERE id = (SELECT max(id) FROM kgs_ranges WHERE state = 'reserved')`)
		return err
	})
	if err != nil {
		return err
	}
	return accounts(ctx, st)
}
