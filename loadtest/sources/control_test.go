//go:build drill

package sources

import (
	"context"
	"regexp"
	"slices"
	"testing"

	"keypool/loadtest/testbed"
)

// A source that is broken on purpose is found out, by the rule that it breaks.
func TestBrokenSources(t *testing.T) {
	tests := []struct {
		name  string
		from  string // the source that is broken
		flaw  string // the setting that breaks it
		rule  func(context.Context, *stand) error
		finds string
	}{
		{"codes twice", "ledger", "KEYPOOL_WITHOUT=once,conflict", unique, `[1-9]\d* there twice`},
		{"codes twice, of a pool", "redis-pool", "KEYPOOL_WITHOUT=once,conflict", shared, `[1-9]\d* there twice`},
		{"lost links", "random", "KEYPOOL_WITHOUT=store", unique, `[1-9]\d* are lost`},
		{"no fallback", "redis-pool", "FALLBACK=none", goesWithoutDead, `although there is a fallback`},
		{"endless waits", "redis-pool", "KEYPOOL_WITHOUT=patience", goesWithoutDead, `refused after \S+, which is over`},
		{"another's codes", "random", "CODE_LENGTH=7", unique, `does not match`},
		{"no recovery", "redis-pool", "KGS_WORKER=false", goesWithoutDead, `still: the source does not serve`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := broken(t, tt.from, tt.flaw)
			if tt.flaw == "KGS_WORKER=false" {
				s.draws = onMortalWorker
			}
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
			s.settings = append(slices.Clone(s.settings), flaw)
			return s
		}
	}
	t.Fatalf("there is no source %s", name)
	return source{}
}

func goesWithoutDead(ctx context.Context, st *stand) error { return goesWithout(ctx, st, faults()[0]) }

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
