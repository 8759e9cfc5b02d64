package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// announce creates the presence of a holder, and reserves a range of 100 numbers for the holder.
func announce(t *testing.T, l kgstest.LedgerUnderTest, path, holder string) *ledger.Presence {
	t.Helper()
	p, err := ledger.Announce(path, holder)
	if err != nil {
		t.Fatal(err)
	}
	l.MustReserve(t, holder, ledger.StateReserved, 100)
	return p
}

// A server is killed and started again several times. After each start, it takes over the range that its predecessor held.
func TestNextHolderTakesOverRangeOfKilledHolder(t *testing.T) {
	t.Parallel()
	l, path := kgstest.NewSQLiteLedger(t), filepath.Join(t.TempDir(), "test.db")
	if _, err := l.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	alive := announce(t, l, path, "alive") // has the range [0, 100)
	for n, holder := range []string{"first", "second", "third"} {
		if dead, err := l.Bury(t.Context(), path); dead != min(n, 1) || err != nil {
			t.Errorf("before %s: Bury = %d, %v, want %d", holder, dead, err, min(n, 1))
		}
		killed := announce(t, l, path, holder)
		l.WantRows(t, kgstest.Row(0, 100, ledger.StateReserved, "alive"), kgstest.Row(100, 200, ledger.StateReserved, holder))
		killed.Kill(t)
	}
	if holders, err := l.Holders(t.Context()); err != nil || !slices.Equal(holders, []string{"alive", "third"}) {
		t.Errorf("the holders are %v (error %v), want alive and third", holders, err)
	}
	if _, err := l.Bury(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if err := alive.Close(); err != nil {
		t.Fatal(err)
	}
	deleted := announce(t, l, path, "deleted")
	if err := os.Remove(path + ".holder-deleted"); err != nil {
		t.Fatal(err)
	}
	if err := deleted.Close(); err != nil {
		t.Errorf("Close of a presence whose file was deleted: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 1 { // one file is left: the database
		t.Errorf("the files %v are left (error %v), want only the database", left, err)
	}
}

// If the file of one holder cannot be opened, Bury still declares the other holders dead.
func TestBuryDeclaresOtherHoldersDeadAfterError(t *testing.T) {
	t.Parallel()
	l, path := kgstest.NewSQLiteLedger(t), filepath.Join(t.TempDir(), "test.db")
	if _, err := l.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, nil, 0o640), os.Mkdir(path+".holder-a", 0o700)); err != nil {
		t.Fatal(err)
	}
	killed := announce(t, l, path, "b")
	if info, err := os.Stat(path + ".holder-b"); err != nil || info.Mode() != 0o640 {
		t.Errorf("the file of the holder has the mode %v (error %v), want the mode of the database", info.Mode(), err)
	}
	killed.Kill(t)
	if dead, err := l.Bury(t.Context(), path); dead != 1 || !strings.Contains(err.Error(), "bury a: ") {
		t.Errorf("Bury = %d, %v, want 1 and an error about the holder a", dead, err)
	}
}

// A process can be killed before it renames the file of its holder.
func TestBuryRemovesOldUnfinishedHolderFiles(t *testing.T) {
	t.Parallel()
	l, path := kgstest.NewSQLiteLedger(t), filepath.Join(t.TempDir(), "test.db")
	if _, err := l.Open(t.Context(), ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"old": 2 * time.Minute, "new": 0} {
		file, then := path+".holder-"+name+".new", time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if dead, err := l.Bury(t.Context(), path); dead != 0 || err != nil {
		t.Errorf("Bury = %d, %v, want 0", dead, err)
	}
	left, err := filepath.Glob(path + "*")
	if err != nil || !slices.Equal(left, []string{path + ".holder-new.new"}) {
		t.Errorf("the files %v are left (error %v), want only the new file", left, err)
	}
}
