package server

import (
	"log/slog"
	"slices"
	"testing"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/web/admin"
)

// Each process is a holder in the ledger while it runs, even a server whose codes do not come
// from the ledger. After its stop it is not a holder.
func TestRunningProgramsAreHoldersInLedger(t *testing.T) {
	t.Parallel()
	s := settings(t, sqliteURL(t), testenv.RedisURL(t))
	s.KeySource = "random"
	r := start(t, s)
	db, err := sqlite.Open(t.Context(), s.Database.SQLitePath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r.await("a second heartbeat", func(admin.Status) bool { return slices.Max(heartbeats(t, db)) > 1 })
	k, err := app.StartKGS(t.Context(), config.KGS{Common: s.Common}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(heartbeats(t, db)); n < 2 {
		t.Errorf("%d holders while a server and a worker run, want 2", n)
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	if n := len(heartbeats(t, db)); n != 1 {
		t.Errorf("%d holders while only the server runs, want 1", n)
	}
	r.stop()
	if n := len(heartbeats(t, db)); n != 0 {
		t.Errorf("%d holders after the stops, want 0", n)
	}
}

// heartbeats returns the number of heartbeats of each holder.
func heartbeats(t *testing.T, db *sqlite.DB) (all []int64) {
	t.Helper()
	rows, err := db.Read.QueryContext(t.Context(), `SELECT beat FROM kgs_holders`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var beat int64
		if err := rows.Scan(&beat); err != nil {
			t.Fatal(err)
		}
		all = append(all, beat)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
