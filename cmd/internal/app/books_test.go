package app

import (
	"log/slog"
	"slices"
	"testing"

	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/web/admin"
)

// Whoever could take keys is in the books while it runs, also a server whose own codes are in
// none, and leaves nothing there for others to sweep.
func TestProgramsKeepTheirNamesInTheBooks(t *testing.T) {
	t.Parallel()
	s := settings(t, sqliteURL(t), testenv.RedisURL(t))
	s.KeySource = "random"
	r := start(t, s)
	db, err := sqlite.Open(t.Context(), s.Database.sqlitePath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r.await("a beat after that of the start", func(admin.Status) bool { return slices.Max(beats(t, db)) > 1 })
	k, err := StartKGS(t.Context(), KGSSettings{Settings: s.Settings}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(beats(t, db)); n < 2 {
		t.Errorf("%d holders while a server and a worker run", n)
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	if n := len(beats(t, db)); n != 1 {
		t.Errorf("%d holders when the server alone runs", n)
	}
	r.stop()
	if n := len(beats(t, db)); n != 0 {
		t.Errorf("%d holders when nobody runs", n)
	}
}

// beats are how often each holder said that it is alive.
func beats(t *testing.T, db *sqlite.DB) (all []int64) {
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
