package app

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/web/admin"
)

func snowflakeSettings(t *testing.T, database string, machine int) ServeSettings {
	t.Helper()
	s := settings(t, database, "")
	s.KeySource, s.MachineID = "snowflake", machine
	return s
}

func TestMachineIDOfARunningServerIsRefused(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	first := start(t, snowflakeSettings(t, url, 7))
	_, err := StartServer(t.Context(), snowflakeSettings(t, url, 7), slog.New(slog.DiscardHandler))
	var setting *SettingError
	if !errors.As(err, &setting) || setting.Name != "MACHINE_ID" || setting.Got != "7" {
		t.Errorf("a second server with the same MACHINE_ID: %v", err)
	}
	before := first.shorten("https://go.dev/")
	other := start(t, snowflakeSettings(t, url, leasedMachine))
	if code := other.shorten("https://go.dev/"); len(code) != 11 || code <= before {
		t.Errorf("code %s of a server with a leased id, %s before", code, before)
	}
	first.stop()
	again := start(t, snowflakeSettings(t, url, 7)) // what was given back is free at once
	if code := again.shorten("https://go.dev/"); len(code) != 11 || code <= before {
		t.Errorf("code %s after a restart, %s before", code, before)
	}
}

// The machine id of a server that was killed is promised for some seconds more. The next
// one starts all the same, and the fallback serves meanwhile.
func TestMachineIDOfADeadServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	s := snowflakeSettings(t, url, 7)
	start(t, s).stop() // makes the tables
	until := time.Now().Add(10 * time.Second)
	promise(t, s.Database.sqlitePath, "dead", until)
	r := start(t, s)
	if code := r.shorten("https://go.dev/"); len(code) != 6 {
		t.Errorf("code %s, want one of the fallback", code)
	}
	r.await("keys of the machine id", func(admin.Status) bool { return len(r.shorten("https://go.dev/")) == 11 })
	if early := time.Until(until); early > 0 {
		t.Errorf("it was leased %v before its promise ended", early)
	}
}

// promise writes that machine id 7 is promised to somebody.
func promise(t *testing.T, path, holder string, until time.Time) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err = db.Write.ExecContext(t.Context(), `UPDATE kgs_machines SET holder = $1, until_ms = $2 WHERE id = 7`,
		holder, until.Sub(epoch).Milliseconds())
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
