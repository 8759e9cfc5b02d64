package visits

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/testenv"
	"keypool/shortener/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// patient returns s with a long time limit of reads, because a machine that runs other tests may be slow.
func patient(s Store) Store {
	s.limit = time.Minute
	return s
}

// onEngines runs test on an empty database of each engine.
func onEngines(t *testing.T, test func(*testing.T, Store)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := storetest.SQLite(t)
		test(t, patient(SQLite(db.Read, db.Write)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db := stdlib.OpenDBFromPool(storetest.Postgres(t))
		t.Cleanup(func() { db.Close() })
		test(t, patient(Postgres(db)))
	})
}

// noon is the time at which the tests count visits.
func noon() time.Time { return time.Date(2026, 3, 4, 12, 30, 0, 0, time.UTC) }

// at returns the hour of noon plus a number of hours.
func at(hours int64) int64 { return hourOf(noon()) + hours }

// apply registers the writer of a part and applies the part.
func apply(t *testing.T, s Store, p Part) {
	t.Helper()
	if err := errors.Join(s.Register(t.Context(), p.Writer), s.Apply(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
}

// setPast stores the visits that links had before their import.
func setPast(t *testing.T, s Store, links ...BeforeImport) {
	t.Helper()
	statement, argument, err := s.BeforeImportStatement(links)
	if err == nil {
		_, err = s.write.ExecContext(t.Context(), statement, argument)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func wantTotals(t *testing.T, s Store, want map[string]Count, codes ...string) {
	t.Helper()
	got, err := s.Totals(t.Context(), codes)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "totals", got, want)
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// applierFunc is an Applier that knows every writer.
type applierFunc func(ctx context.Context, p Part) error

// Register implements [Applier].
func (applierFunc) Register(context.Context, string) error { return nil }

// Apply implements [Applier].
func (f applierFunc) Apply(ctx context.Context, p Part) error { return f(ctx, p) }
