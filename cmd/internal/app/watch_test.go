package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"keypool/cmd/internal/alert"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/testenv"
	"keypool/internal/testenv/logbuffer"
	"keypool/kgs/ledger"
	"keypool/kgs/refill"
	"keypool/web/admin"
)

// A restart of the worker renews the connections of the ledger, because they may be broken.
func TestRenewConnectionsReplacesConnectionsOfLedger(t *testing.T) {
	t.Parallel()
	life := &program.Lifecycle{}
	c, err := newCore(settings(t, testenv.PostgresURL(t)).Common, life, slog.New(slog.DiscardHandler)).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := life.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	backend := func() (pid int) {
		if err := c.ledgerDB.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
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

// The database closes all connections, as it does when it restarts. Therefore releaseHolder, which runs when the program
// stops, first gets a closed connection. The test has its own server, because other tests would lose their connections
// too.
func TestStopAfterDatabaseRestartReleasesHolder(t *testing.T) {
	t.Parallel()
	life := &program.Lifecycle{}
	c, err := newCore(settings(t, testenv.StartPostgres(t).URL).Common, life, slog.New(slog.DiscardHandler)).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.OpenLedger(t.Context()), c.ledger.Renew(t.Context(), c.holder)); err != nil {
		t.Fatal(err)
	}
	other, err := pgx.Connect(t.Context(), c.ledgerDB.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(t.Context()) }()
	const terminate = `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	if _, err := other.Exec(t.Context(), terminate); err != nil {
		t.Fatal(err)
	}
	if err := c.releaseHolder(t.Context()); err != nil {
		t.Errorf("release the holder: %v", err)
	}
	var holders int
	if err := other.QueryRow(t.Context(), `SELECT count(*) FROM kgs_holders`).Scan(&holders); err != nil || holders != 0 {
		t.Errorf("the ledger has %d holders, error %v, want none", holders, err)
	}
	if err := life.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// If the stop cannot release the holder, the lock file stays. TestNextHolderTakesOverRangeOfKilledHolder in package ledger covers
// the next process, which finds the file. If the start fails before the ledger has the holder, no file stays.
func TestLockFileStaysIfHolderCannotBeReleased(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after bool // whether the database fails before and after the start
		stays         bool
	}{
		"holder released":         {false, false, false},
		"holder not released":     {false, true, true},
		"holder never registered": {true, true, false},
	} {
		path := filepath.Join(t.TempDir(), "links.db")
		life := &program.Lifecycle{}
		c, err := newCore(settings(t, "sqlite:"+path).Common, life, slog.New(slog.DiscardHandler)).open(t.Context())
		if err == nil {
			err = c.OpenLedger(t.Context())
		}
		if err == nil && test.before {
			err = c.SQLite.Write.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		err = c.asHolder(t.Context(), func(err error) { t.Error(err) }, func() error { return nil })
		if (err != nil) != test.before {
			t.Fatalf("%s: the start: %v", name, err)
		}
		if test.after {
			if err := c.SQLite.Write.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := life.Shutdown(t.Context()); (err != nil) != test.stays {
			t.Errorf("%s: the stop: %v", name, err)
		}
		files, err := filepath.Glob(path + ".holder-*")
		if err != nil || (len(files) > 0) != test.stays {
			t.Errorf("%s: the lock files after the stop are %v, %v", name, files, err)
		}
	}
}

// A failure that the dead man's switch reports ends the program with status 1 and one line of output.
func TestFailedProgramExitsWithStatus1(t *testing.T) {
	t.Parallel()
	var stderr logbuffer.Buffer
	p := program.New(slog.New(slog.DiscardHandler))
	p.OnStop("redis", func(context.Context) error { return errors.New("gone") })
	p.Fail(errors.New("after 3 restarts no key"))
	status := Console{Name: "kgs", Out: io.Discard, Errors: &stderr}.RunUntilDone(t.Context(), p, nil)
	if want := "kgs: after 3 restarts no key; stop redis: gone\n"; status != 1 || stderr.String() != want {
		t.Errorf("exit status %d and standard error %q; want 1 and %q", status, stderr.String(), want)
	}
}

func TestServingWatchReturnsTimeOfChangeFromBatchToFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := "batch"
		w := &servingWatch{from: func() string { return from }}
		_, start := w.look()
		time.Sleep(time.Hour)
		if got, since := w.look(); got != "batch" || !since.Equal(start) {
			t.Errorf("serving from %s since %v, want batch since %v", got, since, start)
		}
		from = "fallback"
		if got, since := w.look(); got != "fallback" || since.Sub(start) != time.Hour {
			t.Errorf("serving from %s since %v, want fallback since one hour after %v", got, since, start)
		}
	})
}

// The rate is 0 a few seconds after the last creation.
func TestRateOfTakenKeysBecomesZeroAfterLastCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken atomic.Int64
		w := newServingWatch(func() string { return "batch" }, func(context.Context) {}, taken.Load)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = w.run(ctx) }() // returns nil
		for range 600 {                // 20 keys a second for a minute
			time.Sleep(100 * time.Millisecond)
			taken.Add(2)
		}
		if rate := w.takenRate(); math.Abs(rate-20) > 1 {
			t.Errorf("the rate is %v, want 20", rate)
		}
		time.Sleep(takenWindow + 2*servingInterval) // a sample may precede the last creation by an interval
		synctest.Wait()
		if rate := w.takenRate(); rate != 0 {
			t.Errorf("the rate is %v after the last creation, want 0", rate)
		}
	})
}

// The rate covers five seconds, although the samples are not exactly a second apart.
func TestRateOfTakenKeysCoversFiveSecondsDespiteLateSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken atomic.Int64
		late := false
		probe := func(context.Context) { // runs before each sample
			if late = !late; late {
				time.Sleep(5 * time.Millisecond)
			}
		}
		w := newServingWatch(func() string { return "batch" }, probe, taken.Load)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = w.run(ctx) }() // returns nil
		time.Sleep(20*time.Second + 500*time.Millisecond)
		for range 20 { // bursts that are ten seconds apart
			taken.Add(60)
			for range 10 {
				time.Sleep(time.Second)
				if rate := w.takenRate(); rate != 0 && math.Abs(rate-12) > 0.1 {
					t.Fatalf("the rate is %v, want 12 or 0", rate)
				}
			}
		}
	})
}

// A pool in memory belongs to one process, but the runway depends on all processes. Here, only other processes take keys.
func TestStatusPredictsSpaceRunway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := poolOf(t, 1000, nil)
		c := &Core{Common: config.Common{CodeLength: 6}}
		var next atomic.Int64
		var gone atomic.Bool
		counters := ledger.NewWatch(func(context.Context) (ledger.Counters, error) {
			if gone.Load() {
				return ledger.Counters{}, errors.New("unreachable")
			}
			return ledger.Counters{Spaces: []ledger.SpaceCounter{{Length: 6, Size: 1_000_000, Next: next.Load()}}}, nil
		}, 6, slog.New(slog.DiscardHandler))
		describe := func() (s admin.Status) {
			c.describeSpace(&s, counters, pool)
			return s
		}
		if s := describe(); s.SpaceRunwaySeconds != nil {
			t.Errorf("the runway is %v s before the first read of the ledger, want unknown", *s.SpaceRunwaySeconds)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = counters.Run(ctx) }() // returns nil
		for range 3 {                         // 100,000 numbers an hour
			time.Sleep(time.Hour)
			next.Add(100_000)
		}
		time.Sleep(3 * time.Second)
		if s := describe(); s.SpaceRunwaySeconds == nil || math.Abs(*s.SpaceRunwaySeconds-7*60*60) > 60 {
			t.Errorf("status %+v: want a runway of seven hours for the remaining 700,000 numbers", s)
		}
		gone.Store(true)
		time.Sleep(10 * time.Second)
		if s := describe(); s.SpaceRunwaySeconds != nil {
			t.Errorf("the runway is %v s although the counters are stale, want unknown", *s.SpaceRunwaySeconds)
		}
	})
}

// Package alert does not import package refill but must use the same names of states.
func TestPackagesAlertAndRefillUseSameStateNames(t *testing.T) {
	t.Parallel()
	if string(alert.Filling) != string(refill.StateFilling) || string(alert.OK) != string(refill.StateOK) {
		t.Errorf("package alert names the states %q and %q, package refill %q and %q",
			alert.Filling, alert.OK, refill.StateFilling, refill.StateOK)
	}
}
