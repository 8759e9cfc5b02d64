package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A database is restored from a backup, and the witness is lost too. If the command `shortener restored` ran, no server issues a
// code of a lost link again. Otherwise, servers issue such codes again.
func TestRestoredCommandPreventsReuseOfCodesOfLostLinks(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{true, false} {
		url := sqliteURL(t)
		file := strings.TrimPrefix(url, "sqlite:")
		serve := func() map[string]bool {
			r := start(t, settings(t, url, "", "--key-source=ledger"))
			defer r.stop()
			codes := make(map[string]bool)
			for range 50 {
				codes[r.shorten("https://go.dev/")] = true
			}
			return codes
		}
		serve()
		backup, err := os.ReadFile(file) // the server has stopped, so the log is empty
		if err != nil {
			t.Fatal(err)
		}
		lost := serve()
		witnesses, err := filepath.Glob(file + ".witness-*")
		if err != nil || len(witnesses) != 1 {
			t.Fatalf("the database has the witnesses %q, error %v", witnesses, err)
		}
		for _, name := range []string{witnesses[0], file + "-wal", file + "-shm"} {
			if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(file, backup, 0o600); err != nil {
			t.Fatal(err)
		}
		if recorded {
			if status, out := command(t, url, "restored"); status != 0 {
				t.Fatalf("restored: exit status %d, %s", status, out)
			}
		}
		again := 0
		for code := range serve() {
			if lost[code] {
				again++
			}
		}
		if (again == 0) != recorded {
			t.Errorf("with the command restored: %t; %d codes were issued again", recorded, again)
		}
		if status, out := command(t, url, "audit"); status != 0 {
			t.Errorf("audit: exit status %d, %s", status, out)
		}
	}
	url := sqliteURL(t)
	start(t, settings(t, url, "", "--key-source=ledger")).stop()
	if status, out := command(t, url, "--key-source=ticket", "restored"); status != 0 || !strings.Contains(out, "the counters of the key source ticket do not change") {
		t.Errorf("restored with KEY_SOURCE=ticket: exit status %d, %s", status, out)
	}
	if status, out := command(t, "sqlite:"+filepath.Join(t.TempDir(), "none.db"), "restored"); status == 0 || !strings.Contains(out, "no database at") {
		t.Errorf("restored without a database: exit status %d, %s", status, out)
	}
}
