package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keypool/cmd/internal/program"
)

func TestLogShowsDurationsWithUnit(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"json": `"after":"10ms"`, "text": "after=10ms"} {
		var out bytes.Buffer
		NewLogger(&out, slog.LevelInfo, format).Info("stopped", slog.Duration("after", 10_149_598*time.Nanosecond))
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log in the format %s is %s, want %s", format, out.String(), want)
		}
	}
}

// A program that cannot read the witness of its SQLite file does not start. It prints one line that names the witness.
func TestProgramDoesNotStartIfWitnessIsUnreadable(t *testing.T) {
	t.Parallel()
	s := settings(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db")).Common
	openLedger := func() error {
		life := &program.Lifecycle{}
		c, err := newCore(s, life, slog.New(slog.DiscardHandler)).open(t.Context())
		if err == nil {
			err = c.OpenLedger(t.Context())
		}
		return errors.Join(err, life.Shutdown(context.WithoutCancel(t.Context())))
	}
	if err := openLedger(); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(s.Database.SQLitePath + ".witness-*")
	if err != nil || len(found) != 1 {
		t.Fatalf("the witnesses are %v (error %v), want one", found, err)
	}
	if err := errors.Join(os.Remove(found[0]), os.Mkdir(found[0], 0o700)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	status := Console{Name: "test", Errors: &out}.Exit(openLedger())
	if lines := strings.Count(out.String(), "\n"); status != ExitUsage || lines != 1 || !strings.Contains(out.String(), found[0]) {
		t.Errorf("status %d, want %d and one line that names %s:\n%s", status, ExitUsage, found[0], &out)
	}
}
