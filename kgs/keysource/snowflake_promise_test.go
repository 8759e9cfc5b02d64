package keysource

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"keypool/kgs"
	"keypool/kgs/kgstest"
)

func mustKeep(t *testing.T, s *Snowflake) {
	t.Helper()
	if err := s.keep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// run runs a generator until the test ends or stop is called.
func run(t *testing.T, s *Snowflake) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func TestSnowflakeFollowsGeneratorContract(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		kgstest.TestGenerator(t, func(t *testing.T) kgs.Generator {
			s := newTestSnowflake(l, rand.Text(), -1, nil)
			if err := s.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			run(t, s)
			return s
		})
	})
}

func TestConcurrentProcessesGetDifferentMachineIDs(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		const many = 50
		all := make([]*Snowflake, many)
		var group sync.WaitGroup
		for i := range all {
			all[i] = newTestSnowflake(l, fmt.Sprintf("holder %d", i), -1, clockAt(100_000).now)
			group.Go(func() {
				if err := all[i].keep(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		ids := make(map[int]bool)
		for _, s := range all {
			ids[s.promise.id] = true
		}
		if len(ids) != many {
			t.Errorf("%d generators got %d different machine ids", many, len(ids))
		}
	})
}

func TestProcessAcquiresMachineIDThatWasFreeLongest(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		l.Exec(t, `UPDATE kgs_machines SET until_ms = 1000 + id, holder = 'gone'`)
		l.Exec(t, `UPDATE kgs_machines SET until_ms = 500 WHERE id = 700`)
		clock := clockAt(1002)
		for _, want := range []int{700, 0, 1, 2} {
			s := newTestSnowflake(l, fmt.Sprint(want), -1, clock.now)
			mustKeep(t, s)
			if s.promise.id != want {
				t.Errorf("the process acquired machine id %d, want %d", s.promise.id, want)
			}
		}
		s := newTestSnowflake(l, "one too many", -1, clock.now)
		if err := s.Open(t.Context()); !errors.Is(err, errNoMachine) {
			t.Errorf("Open = %v, want errNoMachine", err)
		}
	})
}

// TestLastFreeMachineIDIsFoundAfterConflict leaves two ids free. While a process tries to acquire
// one of them, another process acquires this id. The first process must then acquire the remaining
// id.
func TestLastFreeMachineIDIsFoundAfterConflict(t *testing.T) {
	t.Parallel()
	l := kgstest.NewSQLiteLedger(t)
	l.Exec(t, `UPDATE kgs_machines SET until_ms = 900000, holder = 'other' WHERE id > 1`)
	l.Exec(t, `CREATE TRIGGER conflict BEFORE UPDATE ON kgs_machines WHEN new.holder = 'late' AND old.id = 0 BEGIN
		UPDATE kgs_machines SET until_ms = 900000, holder = 'early' WHERE id = 0;
		SELECT raise(IGNORE);
	END`)
	s := newTestSnowflake(l, "late", -1, clockAt(100_000).now)
	mustKeep(t, s)
	if s.promise.id != 1 {
		t.Errorf("the process acquired machine id %d, want 1", s.promise.id)
	}
}

// TestMachineIDStaysUsableUntilPromiseEnds checks that a process makes numbers until its promise ends,
// although the database is down. After the outage, the process extends the promise.
func TestMachineIDStaysUsableUntilPromiseEnds(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		clock := clockAt(100_000)
		s := newTestSnowflake(l, "holder", -1, clock.now)
		mustKeep(t, s)
		l.Exec(t, `ALTER TABLE kgs_machines RENAME TO renamed`)
		clock.step(promiseAhead - time.Millisecond)
		if err := s.keep(t.Context()); err == nil {
			t.Error("the promise was extended without a database")
		}
		nextCode(t, s)
		clock.step(time.Millisecond)
		_, err := s.Next(t.Context(), "", 0)
		if !errors.Is(err, kgs.ErrNoKeys) || !strings.Contains(err.Error(), "kgs_machines") {
			t.Errorf("Next = %v, want ErrNoKeys and the cause", err)
		}
		l.Exec(t, `ALTER TABLE renamed RENAME TO kgs_machines`)
		mustKeep(t, s)
		if ms, machine, _ := parts(t, nextCode(t, s)); ms != 103_000 || machine != 0 {
			t.Errorf("the next number has the time %d ms and the machine id %d, want 103000 ms and 0", ms, machine)
		}
	})
}

// TestSnowflakeErrorReportsThatClockWasSetBack checks that Next fails with ErrNoKeys, and that the error of keep names
// the clock as the reason. The machine id is configured, so the process keeps it.
func TestSnowflakeErrorReportsThatClockWasSetBack(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		clock := clockAt(100_000)
		s := newTestSnowflake(l, "holder", 7, clock.now)
		mustKeep(t, s)
		nextCode(t, s)
		clock.step(-10 * time.Second)
		wantNoKeys(t, s, "the clock is 10 s behind")
		if err := s.keep(t.Context()); err == nil || !strings.Contains(err.Error(), "10s behind") {
			t.Errorf("keep = %v, want an error with the text 10s behind", err)
		}
		clock.step(10 * time.Second)
		mustKeep(t, s)
		nextCode(t, s)
	})
}

func TestSnowflakeReplacesLostMachineID(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		clock := clockAt(100_000)
		s := newTestSnowflake(l, "holder", -1, clock.now)
		mustKeep(t, s)
		l.Exec(t, `UPDATE kgs_machines SET holder = 'heir', until_ms = 200000 WHERE id = 0`)
		clock.step(promiseAhead)
		wantNoKeys(t, s, "the promise has ended")
		mustKeep(t, s)
		if _, machine, _ := parts(t, nextCode(t, s)); machine != 1 {
			t.Errorf("the next number has the machine id %d, want 1", machine)
		}
	})
}

func TestSnowflakeExtendsPromiseAndGivesBackMachineID(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		clock := clockAt(100_000)
		wantRow := func(holder string, until int64) {
			t.Helper()
			p, err := (&MachineIDs{db: l.DB}).promise(t.Context(), 7)
			if err != nil || p.holder != holder || p.until != until {
				t.Errorf("the promise is %+v, error %v, want the holder %q and the end %d", p, err, holder, until)
			}
		}
		s := newTestSnowflake(l, "one", 7, clock.now)
		mustKeep(t, s)
		clock.step(promiseAhead - promiseLow - time.Millisecond)
		mustKeep(t, s)
		wantRow("one", 103_000)
		clock.step(time.Millisecond)
		mustKeep(t, s)
		wantRow("one", 104_000)
		// An extension with an earlier end, which arrives late, does not shorten the promise.
		if err := s.cfg.Machines.extend(t.Context(), promise{7, "one", 103_500}); err != nil {
			t.Error(err)
		}
		wantRow("one", 104_000)
		last := nextCode(t, s)
		s.giveBack(t.Context())
		wantRow("", 101_001)
		wantNoKeys(t, s, "the machine id was given back")
		clock.step(time.Millisecond)
		next := newTestSnowflake(l, "two", 7, clock.now)
		mustKeep(t, next)
		if code := nextCode(t, next); code <= last {
			t.Errorf("the code after the restart is %s, want a higher code than %s", code, last)
		}
		if err := s.cfg.Machines.extend(t.Context(), promise{7, "one", 105_000}); !errors.Is(err, kgs.ErrFenced) {
			t.Errorf("extend after giveBack: %v, want ErrFenced", err)
		}
	})
}

func TestSnowflakeOpenRefusesMachineIDOfRunningProcess(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		first := newTestSnowflake(l, "first", 7, nil)
		if err := first.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := run(t, first)
		second := newTestSnowflake(l, "second", 7, nil)
		kgstest.Await(t, "Open fails with ErrMachineTaken and the name of the holder", func() bool {
			err := second.Open(t.Context())
			if _, made := second.Next(t.Context(), "", 0); made == nil {
				if _, err := first.Next(t.Context(), "", 0); err == nil {
					t.Error("two processes make keys with the machine id 7")
				}
			}
			second.giveBack(t.Context()) // if the first process paused until its promise ended, the second process has the id
			return errors.Is(err, ErrMachineTaken) && strings.Contains(err.Error(), "first")
		})
		kgstest.Await(t, "a key of the first process", func() bool {
			_, err := first.Next(t.Context(), "", 0)
			return err == nil
		})
		stop()
		if err := second.Open(t.Context()); err != nil {
			t.Errorf("Open after the first process had stopped: %v", err)
		}
		run(t, second) // the second process has to wait if the first process has used the current millisecond
		kgstest.Await(t, "a key of the second process", func() bool {
			_, err := second.Next(t.Context(), "", 0)
			return err == nil
		})
	})
}

// The first generator of TestMachineIDOfKilledProcessBecomesFree stands for a killed process: it neither extends its
// promise nor gives its machine id back. Then another process, the heir, opens the same id, which must not fail. The
// time of the first number of the heir must not be before the end of the promise of the killed process.
func TestMachineIDOfKilledProcessBecomesFree(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		dead := newTestSnowflake(l, "dead", 7, nil)
		if err := dead.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		nextCode(t, dead)
		heir := newTestSnowflake(l, "heir", 7, nil)
		if err := heir.Open(t.Context()); err != nil {
			t.Fatalf("Open of the heir: %v", err)
		}
		run(t, heir)
		var k kgs.Key
		kgstest.Await(t, "a key of the heir", func() bool {
			var err error
			k, err = heir.Next(t.Context(), "", 0)
			return err == nil
		})
		if ms, _, _ := parts(t, k.Code); ms < dead.promise.until {
			t.Errorf("the heir began at %d ms, before the end of the promise at %d", ms, dead.promise.until)
		}
	})
}
