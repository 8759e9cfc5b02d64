package ledger_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keypool/internal/sqlite"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/migrations"
)

// witnessed is a ledger in an SQLite file with a witness, as one process has it.
type witnessed struct {
	*ledger.Ledger
	db      *sqlite.DB
	skipped int64
	log     bytes.Buffer
}

func openWitnessed(t *testing.T, path string) *witnessed {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(t.Context(), db.Write, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	w := &witnessed{Ledger: ledger.NewSQLite(db), db: db}
	w.OnSkipAhead(func(n int64) { w.skipped += n })
	w.KeepWitness(db.Path()+ledger.WitnessSuffix, slog.New(slog.NewTextHandler(&w.log, nil)))
	if _, err := w.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *witnessed) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(w.Close(), w.db.Close()); err != nil {
		t.Fatal(err)
	}
}

func (w *witnessed) reserve(t *testing.T, holder string, state ledger.State, n int64) ledger.Reservation {
	t.Helper()
	r, err := w.Reserve(t.Context(), holder, state, codespace.MinLength, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *witnessed) wantWarnings(t *testing.T, n int, text string) {
	t.Helper()
	if got := strings.Count(w.log.String(), "level=WARN"); got != n || !strings.Contains(w.log.String(), text) {
		t.Errorf("the log has %d warnings, want %d with %q:\n%s", got, n, text, &w.log)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A restored file has the same counters in the second and the third case: the numbers that were issued since the copy are from a range
// that was reserved before.
func TestWitnessShowsRestoredFile(t *testing.T) {
	t.Parallel()
	for name, issue := range map[string]func(*witnessed, ledger.Reservation) codespace.Range{
		"new numbers": func(w *witnessed, _ ledger.Reservation) codespace.Range {
			return w.reserve(t, "a", ledger.StateBatch, 50).Range
		},
		"numbers of a range": func(w *witnessed, r ledger.Reservation) codespace.Range {
			batch, _, err := w.Cut(t.Context(), "a", r, 50)
			if err != nil {
				t.Fatal(err)
			}
			return batch.Range
		},
		"all numbers of a range": func(w *witnessed, r ledger.Reservation) codespace.Range {
			batch, rest, err := w.Cut(t.Context(), "a", r, r.Len())
			if err != nil || rest.Len() > 0 {
				t.Fatalf("cut %v, rest %v, error %v", batch, rest, err)
			}
			return batch.Range
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			w := openWitnessed(t, path)
			r := w.reserve(t, "a", ledger.StateReserved, 1000)
			w.close(t)
			copyFile(t, path, path+".copy")

			w = openWitnessed(t, path)
			issued := issue(w, r)
			if err := w.Release(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			w.close(t)
			w.wantWarnings(t, 0, "")

			copyFile(t, path+".copy", path)
			w = openWitnessed(t, path)
			if err := w.Release(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := w.reserve(t, "b", ledger.StateBatch, 1000); got.Lo < issued.Hi {
					t.Errorf("the numbers %v were issued before the restore, and %v after it", issued, got.Range)
				}
			}
			if w.skipped == 0 {
				t.Error("the skip-ahead was not reported")
			}
			w.skipped = 0
			w.close(t)

			w = openWitnessed(t, path) // with a witness of the present state
			w.reserve(t, "c", ledger.StateBatch, 10)
			if w.skipped > 0 {
				t.Errorf("the next process skipped %d numbers again", w.skipped)
			}
			w.close(t)
		})
	}
}

func TestWitnessThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		harm func(path string) error
		says string
	}{
		"missing": {os.Remove, "the file is missing"},
		"damaged": {func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.Replace(text, []byte("1000"), []byte("9000"), 1), 0o600))
		}, "the file is damaged"},
		"empty": {func(path string) error { return os.Truncate(path, 0) }, "the file is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			w := openWitnessed(t, path)
			w.reserve(t, "a", ledger.StateReserved, 1000)
			w.wantWarnings(t, 0, "")
			w.close(t)
			if err := tt.harm(path + ledger.WitnessSuffix); err != nil {
				t.Fatal(err)
			}
			for n := range 2 {
				w = openWitnessed(t, path)
				for range 3 {
					w.reserve(t, "a", ledger.StateBatch, 10)
				}
				w.wantWarnings(t, 1-n, map[int]string{0: tt.says}[n])
				if w.skipped > 0 {
					t.Errorf("the ledger skipped %d numbers", w.skipped)
				}
				w.close(t)
			}
		})
	}
}

// A witness that cannot be written must not prevent a reservation.
func TestReservationWithoutWitness(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	w := openWitnessed(t, path)
	obstacle := path + ledger.WitnessSuffix + ".new"
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	w.reserve(t, "a", ledger.StateBatch, 10)
	w.reserve(t, "a", ledger.StateBatch, 10)
	w.wantWarnings(t, 1, "write the witness of the database")
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	if err := w.Renew(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ledger.WitnessSuffix); err != nil {
		t.Errorf("the next change wrote no witness: %v", err)
	}
	w.close(t)
}

// The numbers of the new ledger begin at 0, although the old ledger had a witness.
func TestReplacedLedgerHasItsOwnWitness(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	w := openWitnessed(t, path)
	w.reserve(t, "a", ledger.StateReserved, 1000)
	if err := w.Release(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.Replace(t.Context(), false, func(context.Context, *sql.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ledger.WitnessSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the witness of the old ledger is still there: %v", err)
	}
	if _, err := w.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	if r := w.reserve(t, "a", ledger.StateBatch, 10); r.Lo != 0 || w.skipped > 0 {
		t.Errorf("the new ledger reserved %v and skipped %d numbers", r.Range, w.skipped)
	}
	w.wantWarnings(t, 0, "")
	w.close(t)
}
