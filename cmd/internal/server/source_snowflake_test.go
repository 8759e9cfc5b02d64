package server

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/sqlite"
	"keypool/internal/testenv"
	"keypool/web/admin"
)

func snowflakeSettings(t *testing.T, database string, machine config.Machine) config.Server {
	t.Helper()
	s := settings(t, database, "")
	s.KeySource, s.MachineID = "snowflake", machine
	return s
}

func TestSecondServerWithSameMachineIDIsRefused(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	first := start(t, snowflakeSettings(t, url, config.FixedMachine(7)))
	err := refused(t, func() (*program.Program, error) {
		return Start(t.Context(), snowflakeSettings(t, url, config.FixedMachine(7)), slog.New(slog.DiscardHandler))
	})
	var setting *config.Error
	if !errors.As(err, &setting) || setting.Name != "MACHINE_ID" || setting.Got != "7" {
		t.Errorf("second server with the same MACHINE_ID: error %v", err)
	}
	own := func(s admin.Status) bool { return *s.ServingFrom == "batch" }
	first.await("keys of the machine id", own)
	before := first.shorten("https://go.dev/")
	other := start(t, snowflakeSettings(t, url, config.Machine{}))
	other.await("keys of a machine id", own)
	if code := other.shorten("https://go.dev/"); len(code) != 11 || code <= before {
		t.Errorf("a server with an id from the database made the code %s, want 11 characters and a code above %s", code, before)
	}
	first.stop()
	again := start(t, snowflakeSettings(t, url, config.FixedMachine(7))) // a released id is available at once
	again.await("keys of the machine id", own)
	if code := again.shorten("https://go.dev/"); len(code) != 11 || code <= before {
		t.Errorf("after a restart, the server made the code %s, want 11 characters and a code above %s", code, before)
	}
}

// The machine id of a killed server stays reserved for some seconds. The next server with this id
// starts nevertheless, and its fallback serves until the reservation ends.
func TestServerWaitsForMachineIDOfKilledServer(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	s := snowflakeSettings(t, url, config.FixedMachine(7))
	start(t, s).stop() // creates the tables
	reserve(t, s.Database.SQLitePath, "dead", time.Now().Add(time.Hour))
	r := start(t, s)
	if code := r.shorten("https://go.dev/"); len(code) != 6 {
		t.Errorf("code %s, want a code of the fallback", code)
	}
	until := time.Now().Add(3 * time.Second)
	reserve(t, s.Database.SQLitePath, "dead", until)
	r.await("keys of the machine id", func(s admin.Status) bool { return *s.ServingFrom == "batch" }) // needs no creation
	if code := r.shorten("https://go.dev/"); len(code) != 11 {
		t.Errorf("code %s, want a code with the machine id", code)
	}
	if early := time.Until(until); early > 0 {
		t.Errorf("the machine id was used %v before its reservation ended", early)
	}
}

// reserve reserves machine id 7 for a holder.
func reserve(t *testing.T, path, holder string, until time.Time) {
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
