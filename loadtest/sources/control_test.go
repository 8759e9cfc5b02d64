//go:build drill

package sources

import (
	"context"
	"regexp"
	"slices"
	"testing"

	"keypool/loadtest/testbed"
)

// A source that is broken on purpose is found out by the rule that it breaks.
func TestBrokenSources(t *testing.T) {
	tests := []struct {
		name  string
		from  string                              // the source that is broken
		flaw  string                              // the setting that breaks it
		draws func(context.Context, *stand) error // what breaks it else
		rule  func(context.Context, *stand) error
		finds string
	}{
		{"codes twice", "ledger", "KEYPOOL_WITHOUT=once,conflict", nil, unique, `[1-9]\d* there twice`},
		{"codes twice, of a pool", "redis-pool", "KEYPOOL_WITHOUT=once,conflict", onRedis, shared, `[1-9]\d* there twice`},
		{"another's codes", "random", "CODE_LENGTH=7", nil, unique, `does not match`},
		{"lost links", "random", "KEYPOOL_WITHOUT=store", nil, unique, `[1-9]\d* are lost`},
		{"no fallback", "redis-pool", "FALLBACK=none", onRedis, goesWithoutKilled, `although there is a fallback`},
		{"endless waits", "redis-pool", "KEYPOOL_WITHOUT=patience", onRedis, goesWithoutKilled, `refused after \S+, which is over`},
		{"no recovery", "redis-pool", "KGS_WORKER=false", onMortalWorker, goesWithoutKilled, `still: the source does not serve`},
		{"one for two", "ticket", "", onOneTicketer, survivesKilled, `creations (failed|do not go on)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := broken(t, tt.from, tt.flaw)
			s.draws = tt.draws
			err := tt.rule(t.Context(), newStand(t, s, programs.drill))
			if err == nil || !regexp.MustCompile(tt.finds).MatchString(err.Error()) {
				t.Errorf("it was not found out: no %q in %v", tt.finds, err)
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

func goesWithoutKilled(ctx context.Context, st *stand) error {
	return goesWithout(ctx, st, faults()[0])
}

func survivesKilled(ctx context.Context, st *stand) error { return survives(ctx, st, faults()[0]) }

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
