package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"keypool/internal/testenv"
	"keypool/kgs"
	"keypool/web/admin"
)

// A restart of the worker leaves nothing behind that may be the trouble.
func TestRestartRenewsTheLedgersConnections(t *testing.T) {
	t.Parallel()
	life := &lifecycle{}
	c, err := openCore(t.Context(), settings(t, testenv.PostgresURL(t), "").Settings, life, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := life.stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	backend := func() (pid int) {
		if err := c.books.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	before := backend()
	if again := backend(); again != before {
		t.Errorf("without a restart the connection changed from %d to %d", before, again)
	}
	c.renewConnections()
	if again := backend(); again == before {
		t.Error("the connection is the same as before the restart")
	}
}

// What the switch gives up ends the program, not in success, with one line to say why.
func TestProgramThatIsGivenUp(t *testing.T) {
	t.Parallel()
	var says lockedBuffer
	p := newProgram(slog.New(slog.DiscardHandler))
	p.life.onStop("redis", func(context.Context) error { return errors.New("gone") })
	p.fail(errors.New("after 3 restarts no key"))
	status := console{name: "kgs", out: io.Discard, errors: &says}.runUntilDone(t.Context(), p, nil)
	if want := "kgs: after 3 restarts no key; stop redis: gone\n"; status != 1 || says.String() != want {
		t.Errorf("%d, %q; want 1, %q", status, says.String(), want)
	}
}

func TestServingWatchKnowsSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := "batch"
		w := &servingWatch{from: func() string { return from }}
		_, start := w.look()
		time.Sleep(time.Hour)
		if got, since := w.look(); got != "batch" || !since.Equal(start) {
			t.Errorf("%s since %v, want the batch since %v", got, since, start)
		}
		from = "fallback"
		if got, since := w.look(); got != "fallback" || since.Sub(start) != time.Hour {
			t.Errorf("%s since %v, want the fallback since an hour after %v", got, since, start)
		}
	})
}

func TestLedgerWatchTellsHowLongTheSpaceLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLedgerWatch(&core{Settings: Settings{CodeLength: 6}})
		describe := func() (s admin.Status) {
			w.describe(&s)
			return s
		}
		if s := describe(); s.SpaceRunwaySeconds != nil {
			t.Errorf("%v s before the first look", *s.SpaceRunwaySeconds)
		}
		for next := range int64(3) { // a hundred thousand an hour, in one go
			w.saw(kgs.Counters{Spaces: []kgs.SpaceBook{{Length: 6, Size: 1_000_000, Next: 100_000 * next}}})
			time.Sleep(time.Hour)
		}
		w.saw(kgs.Counters{Spaces: []kgs.SpaceBook{{Length: 6, Size: 1_000_000, Next: 300_000}}})
		if s := describe(); s.SpaceRunwaySeconds == nil || *s.SpaceRunwaySeconds != 7*60*60 {
			t.Errorf("%+v: want seven hours for the other seven hundred thousand", s)
		}
		time.Sleep(lookStale)
		if s := describe(); s.SpaceRunwaySeconds != nil {
			t.Errorf("%v s after the ledger went out of sight", *s.SpaceRunwaySeconds)
		}
	})
}
