package keysource

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"keypool/kgs"
	"keypool/kgs/kgstest"
)

// TestSnowflakeReplacesMachineIDIfClockWasSetBack moves the clock of a process forward, draws keys, and moves the clock
// back. The process must acquire another id and make new keys. Another process, the heir, must not get the old id
// before the promise of the old id ends. After that, the heir must not repeat a key.
func TestSnowflakeReplacesMachineIDIfClockWasSetBack(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		for name, jump := range map[string]time.Duration{"2 s": 2 * time.Second, "1 h": time.Hour, "400 days": 400 * 24 * time.Hour} {
			t.Run(name, func(t *testing.T) {
				l.Exec(t, `UPDATE kgs_machines SET until_ms = 0, holder = ''`)
				var log bytes.Buffer
				clock, made := clockAt(100_000), make(map[string]bool)
				s := newTestSnowflake(l, "holder", -1, clock.now)
				s.cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				draw := func(s *Snowflake) (machine int) {
					t.Helper()
					for range 3 {
						code := nextCode(t, s)
						if made[code] {
							t.Errorf("the code %s was made twice", code)
						}
						made[code] = true
						_, machine, _ = parts(t, code)
					}
					return machine
				}
				mustKeep(t, s)
				old := draw(s)
				clock.step(jump)
				mustKeep(t, s)
				draw(s)
				end := s.promise.until
				clock.step(-jump)
				mustKeep(t, s)
				if machine := draw(s); machine == old {
					t.Errorf("the process kept machine id %d", old)
				}
				if lines := log.String(); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "behind="+jump.String()) {
					t.Errorf("the log has the warnings %q, want one with behind=%v", lines, jump)
				}
				heirs := clockAt(end - 1)
				heir := newTestSnowflake(l, "heir", old, heirs.now)
				if err := heir.keep(t.Context()); !errors.Is(err, errNoMachine) {
					t.Errorf("keep of the heir before the end of the promise: %v, want errNoMachine", err)
				}
				heirs.step(time.Millisecond)
				mustKeep(t, heir)
				draw(heir)
			})
		}
	})
}

func TestSnowflakeKeepsMachineIDIfClockIsOneSecondBehind(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		clock := clockAt(100_000)
		s := newTestSnowflake(l, "holder", -1, clock.now)
		mustKeep(t, s)
		before := nextCode(t, s)
		clock.step(-clockLimit)
		if err := s.keep(t.Context()); err == nil {
			t.Error("keep returned no error, want an error because the clock is 1 s behind")
		}
		clock.step(clockLimit)
		if after := nextCode(t, s); after <= before || s.promise.id != 0 {
			t.Errorf("code %s with machine id %d, want a higher code than %s with machine id 0", after, s.promise.id, before)
		}
	})
}

// TestSnowflakeErrorReportsThatNoOtherMachineIDIsFree sets the clock back while no other id is free. The errors of Next
// and keep must say that no id is free. When an id becomes free, the process must acquire it.
func TestSnowflakeErrorReportsThatNoOtherMachineIDIsFree(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		clock := clockAt(3_600_000)
		s := newTestSnowflake(l, "holder", -1, clock.now)
		mustKeep(t, s)
		nextCode(t, s)
		l.Exec(t, `UPDATE kgs_machines SET until_ms = 9000000, holder = 'other' WHERE id > 0`)
		clock.step(-time.Hour)
		if err := s.keep(t.Context()); !errors.Is(err, errNoMachine) || !strings.Contains(err.Error(), "behind the last key") {
			t.Errorf("keep = %v, want errNoMachine and the text \"behind the last key\"", err)
		}
		if _, err := s.Next(t.Context(), "", 0); !errors.Is(err, kgs.ErrNoKeys) || !errors.Is(err, errNoMachine) {
			t.Errorf("Next = %v, want ErrNoKeys and errNoMachine", err)
		}
		l.Exec(t, `UPDATE kgs_machines SET until_ms = 0, holder = '' WHERE id = 9`)
		mustKeep(t, s)
		if _, machine, _ := parts(t, nextCode(t, s)); machine != 9 {
			t.Errorf("the next number has the machine id %d, want 9", machine)
		}
	})
}

// TestRunningSnowflakeContinuesAfterClockWasAnHourAhead checks that Run acquires another id without a restart.
func TestRunningSnowflakeContinuesAfterClockWasAnHourAhead(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		var ahead atomic.Int64 // nanoseconds
		s := newTestSnowflake(l, "holder", -1, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		if err := s.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		run(t, s)
		made := make(map[string]bool)
		for _, offset := range []time.Duration{0, time.Hour, 0} {
			ahead.Store(int64(offset))
			kgstest.Await(t, "a key after a step of the clock", func() bool {
				k, err := s.Next(t.Context(), "", 0)
				if err == nil && made[k.Code] {
					t.Errorf("the code %s was made twice", k.Code)
				}
				made[k.Code] = true
				return err == nil
			})
		}
	})
}
