package ledger_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"keypool/internal/sqlite"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/migrations"
)

// witnessed is a ledger in an SQLite file with a witness, as one process uses it.
type witnessed struct {
	*ledger.Ledger
	db      *sqlite.DB
	skipped int64
	failed  int // number of failed writes of the witness
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
	w.KeepWitness(db.Path(), slog.New(slog.NewTextHandler(&w.log, nil)), func() { w.failed++ })
	if _, err := w.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// reopen closes the ledger and opens it as another process does. If restore is not empty, reopen replaces the database
// with the copy at the path restore before it opens the ledger.
func (w *witnessed) reopen(t *testing.T, restore string) *witnessed {
	t.Helper()
	path := w.db.Path()
	w.close(t)
	if restore != "" {
		copyFile(t, restore, path)
	}
	return openWitnessed(t, path)
}

// backup closes the ledger, copies the database, and opens the ledger again.
func (w *witnessed) backup(t *testing.T) (_ *witnessed, copied string) {
	t.Helper()
	path := w.db.Path()
	w.close(t)
	copyFile(t, path, path+".copy")
	return openWitnessed(t, path), path + ".copy"
}

// witness returns the path of the witness.
func (w *witnessed) witness() string { return w.db.Path() + ".witness-" + w.Name() }

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

// A restore replaces the database with an older copy. In two of the three cases, the counters do not change between the
// copy and the restore, because the numbers that are issued in this time are from a range that was reserved before the
// copy.
func TestWitnessDetectsRestoredSQLiteFile(t *testing.T) {
	t.Parallel()
	for name, issue := range map[string]func(*witnessed, ledger.Reservation) codespace.Range{
		"new numbers are issued": func(w *witnessed, _ ledger.Reservation) codespace.Range {
			return w.reserve(t, "a", ledger.StateBatch, 50).Range
		},
		"some numbers of a reserved range are issued": func(w *witnessed, r ledger.Reservation) codespace.Range {
			batch, _, err := w.Cut(t.Context(), "a", r, 50)
			if err != nil {
				t.Fatal(err)
			}
			return batch.Range
		},
		"all numbers of a reserved range are issued": func(w *witnessed, r ledger.Reservation) codespace.Range {
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

			w = openWitnessed(t, path) // its witness now has the present state
			w.reserve(t, "c", ledger.StateBatch, 10)
			if w.skipped > 0 {
				t.Errorf("the next process skipped %d numbers again, want none", w.skipped)
			}
			w.close(t)
		})
	}
}

func TestMissingOrDamagedWitnessCausesWarning(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		harm  func(path string) error
		says  string
		skips bool
	}{
		"missing": {os.Remove, "the witness of the database is missing", false},
		"damaged": {func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.Replace(text, []byte("1000"), []byte("9000"), 1), 0o600))
		}, "the witness of the database is damaged", true},
		"empty": {func(path string) error { return os.Truncate(path, 0) }, "the witness of the database is damaged", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
			w.reserve(t, "a", ledger.StateReserved, 1000)
			w.wantWarnings(t, 0, "")
			if err := tt.harm(w.witness()); err != nil {
				t.Fatal(err)
			}
			w = w.reopen(t, "")
			w.wantWarnings(t, 1, tt.says)
			if skipped := w.skipped > 0; skipped != tt.skips {
				t.Errorf("the ledger skipped %d numbers, want a skip-ahead only if the witness is damaged", w.skipped)
			}
			w = w.reopen(t, "") // its witness now has the present state
			for range 3 {
				w.reserve(t, "a", ledger.StateBatch, 10)
			}
			w.wantWarnings(t, 0, "")
			if w.skipped > 0 {
				t.Errorf("the next process skipped %d numbers, want none", w.skipped)
			}
			w.close(t)
		})
	}
}

// A process that cannot read the witness does not know whether the database was restored, so it must not open the
// ledger.
func TestLedgerOpenRefusesUnreadableWitness(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(path string) error{
		"directory":  func(path string) error { return os.Mkdir(path, 0o700) },
		"named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
			w.reserve(t, "a", ledger.StateReserved, 1000)
			if err := errors.Join(os.Remove(w.witness()), create(w.witness())); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Open(t.Context(), ledger.Config{}); !errors.Is(err, ledger.ErrWitness) || !strings.Contains(err.Error(), w.witness()) {
				t.Errorf("Open fails with %v, want ErrWitness and the name of the file", err)
			}
			w.close(t)
		})
	}
}

// If Open skipped ahead without a new witness, each further start would skip ahead again.
func TestLedgerOpenFailsBeforeSkipAheadIfDamagedWitnessCannotBeReplaced(t *testing.T) {
	t.Parallel()
	w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
	w.reserve(t, "a", ledger.StateReserved, 1000)
	unblock := w.obstruct(t)
	if err := os.Truncate(w.witness(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Open(t.Context(), ledger.Config{}); !errors.Is(err, ledger.ErrWitness) {
		t.Errorf("Open fails with %v, want ErrWitness", err)
	}
	counters, err := w.Counters(t.Context())
	if err != nil || counters.Reserved() != 1000 || w.skipped > 0 {
		t.Errorf("%d numbers are reserved (error %v), and %d were skipped, want 1000 and 0",
			counters.Reserved(), err, w.skipped)
	}
	unblock()
	w = w.reopen(t, "")
	w.wantWarnings(t, 1, "the witness of the database is damaged")
	w.close(t)
}

// obstruct makes each write of the witness fail until the caller calls unblock.
func (w *witnessed) obstruct(t *testing.T) (unblock func()) {
	t.Helper()
	draft := w.witness() + ".new"
	if err := os.MkdirAll(filepath.Join(draft, "file"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.RemoveAll(draft); err != nil {
			t.Fatal(err)
		}
	}
}

// A witness that cannot be written must not prevent a reservation.
func TestReserveSucceedsIfWitnessCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
	if err := os.Remove(w.witness()); err != nil {
		t.Fatal(err)
	}
	unblock := w.obstruct(t)
	w.reserve(t, "a", ledger.StateBatch, 10)
	w.reserve(t, "a", ledger.StateBatch, 10)
	w.wantWarnings(t, 1, "write the witness of the database")
	unblock()
	if err := w.Renew(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(w.witness()); err != nil {
		t.Errorf("the next change wrote no witness: %v", err)
	}
	if w.failed != 2 {
		t.Errorf("%d failed writes were reported, want 2", w.failed)
	}
	w.close(t)
}

// If the witness was not written after the last changes, the next process replaces the witness before it changes the
// ledger.
func TestLedgerOpenReplacesOldWitness(t *testing.T) {
	t.Parallel()
	w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
	w.reserve(t, "a", ledger.StateBatch, 100)
	unblock := w.obstruct(t)
	w.reserve(t, "a", ledger.StateBatch, 100)
	unblock()
	w, copied := w.backup(t)
	w.wantWarnings(t, 1, "the witness of the database lacks the last changes of the database")
	w = w.reopen(t, "")
	w.wantWarnings(t, 0, "")
	issued := w.reserve(t, "a", ledger.StateBatch, 100)
	w = w.reopen(t, copied)
	w.wantNew(t, issued)
	w.close(t)
}

// After Restored, the first change raises the last id above the id in the witness. The process may end before it takes a
// number. The next process must still skip the numbers up to the mark of the witness.
func TestWitnessIsUsedAfterRecordedRestore(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{100, 10_000} { // less and more than a skip-ahead skips
		w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
		w.reserve(t, "a", ledger.StateBatch, 100)
		w, copied := w.backup(t)
		issued := w.reserve(t, "a", ledger.StateBatch, n)
		path := w.db.Path()
		w.close(t)
		copyFile(t, copied, path)
		db, err := sqlite.Open(t.Context(), path)
		if err == nil {
			err = errors.Join(ledger.NewSQLite(db).Restored(t.Context()), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		w = openWitnessed(t, path)
		w.wantWarnings(t, 0, "")
		w = w.reopen(t, "")
		w.wantNew(t, issued)
		w.close(t)
	}
}

// The lost history may contain the first numbers of a code length, because the minimum code length was raised after the backup.
func TestLedgerSkipsNumbersOfEveryCodeLengthIfWitnessIsDamaged(t *testing.T) {
	t.Parallel()
	w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
	w.reserve(t, "a", ledger.StateBatch, 100)
	w, copied := w.backup(t)
	reserve := func() ledger.Reservation {
		r, err := w.Reserve(t.Context(), "a", ledger.StateBatch, codespace.MinLength+1, 100)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	issued := reserve()
	if err := os.Truncate(w.witness(), 0); err != nil {
		t.Fatal(err)
	}
	w = w.reopen(t, copied)
	if got := reserve(); got.Lo < issued.Hi {
		t.Errorf("the numbers %v were issued before the restore, and %v after it", issued.Range, got.Range)
	}
	w.close(t)
}

// wantNew checks that the ledger does not issue the numbers of a range again.
func (w *witnessed) wantNew(t *testing.T, issued ledger.Reservation) {
	t.Helper()
	if got := w.reserve(t, "b", ledger.StateBatch, 100); got.Lo < issued.Hi {
		t.Errorf("the numbers %v were issued before the restore, and %v after it", issued.Range, got.Range)
	}
}

// A killed process or another user may have left a draft of the witness. The next write replaces the draft. The new
// witness has the mode of the database.
func TestWitnessWriteReplacesOldDraft(t *testing.T) {
	t.Parallel()
	w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
	err := errors.Join(os.Chmod(w.db.Path(), 0o640), os.WriteFile(w.witness()+".new", []byte("half a line"), 0o400))
	if err != nil {
		t.Fatal(err)
	}
	w.reserve(t, "a", ledger.StateBatch, 100)
	w.wantWarnings(t, 0, "")
	if info, err := os.Stat(w.witness()); err != nil || info.Mode() != 0o640 {
		t.Errorf("the mode of the witness is %v (error %v), want the mode of the database", info.Mode(), err)
	}
	w.close(t)
}

// A witness that belongs to root would prevent the start of a server that runs as another user.
func TestWitnessFileBelongsToOwnerOfDatabase(t *testing.T) {
	t.Parallel()
	user, group := os.Geteuid(), os.Getegid()
	if user == 0 { // only root can create a file for another user
		user, group = 65534, 65533
	}
	w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
	if err := os.Chown(w.db.Path(), user, group); err != nil {
		t.Fatal(err)
	}
	w.reserve(t, "a", ledger.StateBatch, 100)
	info, err := os.Stat(w.witness())
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != user || int(owner.Gid) != group {
		t.Errorf("the witness belongs to %d:%d, and the database to %d:%d", owner.Uid, owner.Gid, user, group)
	}
	w.close(t)
}

// An operator moves the database to another place. A server that starts afterwards creates a new database at the same
// path. The witness of the first database stays.
func TestNewDatabaseAtSamePathKeepsWitnessOfFirstDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	w := openWitnessed(t, path)
	w.reserve(t, "a", ledger.StateBatch, 100)
	w, copied := w.backup(t)
	issued := w.reserve(t, "a", ledger.StateBatch, 100)
	w.close(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w = openWitnessed(t, path)
	if r := w.reserve(t, "a", ledger.StateBatch, 10); r.Lo != 0 || w.skipped > 0 {
		t.Errorf("the new ledger reserved %v and skipped %d numbers, want numbers from 0 on and no skip-ahead",
			r.Range, w.skipped)
	}
	w.wantWarnings(t, 0, "")
	w = w.reopen(t, copied)
	w.wantNew(t, issued)
	if w.skipped == 0 {
		t.Error("the skip-ahead was not reported")
	}
	w.close(t)
}

// The numbers of the new ledger begin at 0, although the old ledger had a witness. The witness of the old ledger stays,
// because an operator may restore the old database.
func TestReplacementOfLedgerKeepsWitnessOfOldLedger(t *testing.T) {
	t.Parallel()
	w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
	w.reserve(t, "a", ledger.StateReserved, 1000)
	w, copied := w.backup(t)
	issued := w.reserve(t, "a", ledger.StateBatch, 100)
	if err := w.Release(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.Replace(t.Context(), ledger.Config{}, false, func(context.Context, *sql.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	if r := w.reserve(t, "a", ledger.StateBatch, 10); r.Lo != 0 || w.skipped > 0 {
		t.Errorf("the new ledger reserved %v and skipped %d numbers, want numbers from 0 on and no skip-ahead",
			r.Range, w.skipped)
	}
	w.wantWarnings(t, 0, "")
	w = w.reopen(t, copied)
	w.wantNew(t, issued)
	w.close(t)
}

// The context of the caller may end between the commit and the write of the witness. The caller still uses the numbers.
func TestWitnessIsWrittenAfterContextEnds(t *testing.T) {
	t.Parallel()
	w := openWitnessed(t, filepath.Join(t.TempDir(), "test.db"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := os.Remove(w.witness()); err != nil {
		t.Fatal(err)
	}
	w.WriteWitness(ctx)
	if _, err := os.Stat(w.witness()); err != nil {
		t.Errorf("no witness was written: %v", err)
	}
	w.wantWarnings(t, 0, "")
	w.close(t)
}
