package keysource

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
)

// testClock is a clock that only the test changes.
type testClock struct{ ms atomic.Int64 } // milliseconds since snowflakeEpoch

func clockAt(ms int64) *testClock {
	c := new(testClock)
	c.ms.Store(ms)
	return c
}

func (c *testClock) now() time.Time { return time.UnixMilli(snowflakeEpoch + c.ms.Load()) }

// step moves the clock by d, which may be negative.
func (c *testClock) step(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// newTestSnowflake returns the generator of one process, without a machine id. Its timeout is long, so that no call times out on a
// busy machine.
func newTestSnowflake(l kgstest.LedgerUnderTest, holder string, machine int, now func() time.Time) *Snowflake {
	s := NewSnowflake(SnowflakeConfig{
		Machines: &MachineIDs{db: l.DB}, Holder: holder, Machine: machine, Logger: slog.New(slog.DiscardHandler), now: now,
	})
	s.timeout = time.Minute
	return s
}

// bubbleSnowflake returns a generator without a database, for a synctest bubble. The generator has a promise for
// machine id 5 for an hour. The clock of a bubble begins in the year 2000. The clock of the generator runs at the same
// speed, but begins 100 s after snowflakeEpoch. A test sets the clock of the generator back by storing a number of
// nanoseconds in back.
func bubbleSnowflake() (s *Snowflake, back *atomic.Int64) {
	began := time.Now()
	back = new(atomic.Int64)
	s = &Snowflake{cfg: SnowflakeConfig{now: func() time.Time {
		return time.UnixMilli(snowflakeEpoch + 100_000).Add(time.Since(began)).Add(-time.Duration(back.Load()))
	}}}
	s.promise = promise{id: 5, holder: "test", until: 100_000 + time.Hour.Milliseconds()}
	return s, back
}

// parts splits the number of a code into its fields.
func parts(t *testing.T, code string) (ms int64, machine, sequence int) {
	t.Helper()
	if len(code) != snowflakeLength {
		t.Fatalf("code %q has %d characters", code, len(code))
	}
	var n int64
	for i := range len(code) {
		n = n*codespace.Base + int64(strings.IndexByte(codespace.Alphabet, code[i]))
	}
	return n >> 22, int(n >> 12 & 1023), int(n & 4095)
}

func nextCode(t *testing.T, g kgs.Generator) string {
	t.Helper()
	k, err := g.Next(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return k.Code
}

func wantNoKeys(t *testing.T, g kgs.Generator, why string) {
	t.Helper()
	if k, err := g.Next(t.Context(), "", 0); !errors.Is(err, kgs.ErrNoKeys) {
		t.Errorf("Next = %+v, %v, want ErrNoKeys because %s", k, err, why)
	}
}

func TestSnowflakeNumberContainsTimeMachineIDAndSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := bubbleSnowflake()
		for _, want := range []int{0, 1, 2} {
			ms, machine, sequence := parts(t, nextCode(t, s))
			if ms != 100_000 || machine != 5 || sequence != want {
				t.Errorf("the number has the time %d ms, machine id %d and sequence number %d, want 100000 ms, 5 and %d", ms, machine, sequence, want)
			}
		}
		time.Sleep(7 * time.Millisecond)
		if ms, _, sequence := parts(t, nextCode(t, s)); ms != 100_007 || sequence != 0 {
			t.Errorf("7 ms later, the number has the time %d ms and the sequence number %d, want 100007 ms and 0", ms, sequence)
		}
	})
}

// TestSnowflakeFailsAfterLastNumber makes the number in which every field has its highest value. The
// next call must fail.
func TestSnowflakeFailsAfterLastNumber(t *testing.T) {
	t.Parallel()
	clock := clockAt(1<<timeBits - 1)
	s := &Snowflake{cfg: SnowflakeConfig{now: clock.now}, promise: promise{id: 1023, until: 1 << 62}}
	s.next = clock.ms.Load()<<sequenceBits | 4095
	if ms, machine, sequence := parts(t, nextCode(t, s)); ms != 1<<timeBits-1 || machine != 1023 || sequence != 4095 {
		t.Errorf("the last number has the time %d, the machine id %d and the sequence number %d, want the highest values",
			ms, machine, sequence)
	}
	clock.step(time.Millisecond)
	if _, err := s.Next(t.Context(), "", 0); !errors.Is(err, kgs.ErrNoKeys) || !errors.Is(err, kgs.ErrExhausted) {
		t.Errorf("Next after the last number: %v, want ErrNoKeys and ErrExhausted", err)
	}
	early := clockAt(-1)
	s = &Snowflake{cfg: SnowflakeConfig{now: early.now}, promise: promise{until: 1 << 62}}
	early.step(-time.Hour)
	wantNoKeys(t, s, "it is 2025")
}

// TestSnowflakeWaitsWhenSequenceIsExhausted draws three times the 4,096 numbers of a millisecond, and
// one more. The generator must wait for the next millisecond each time, and all codes must be in
// order.
func TestSnowflakeWaitsWhenSequenceIsExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := bubbleSnowflake()
		began := time.Now()
		var codes []string
		for range 3*4096 + 1 {
			codes = append(codes, nextCode(t, s))
		}
		if took := time.Since(began); took != 3*time.Millisecond {
			t.Errorf("12,289 keys took %v, want 3 ms", took)
		}
		if !slices.IsSorted(codes) || len(slices.Compact(codes)) != 3*4096+1 {
			t.Error("the codes are not in order or not unique")
		}
	})
}

func TestSnowflakeLimitsWaitIfClockIsSetBack(t *testing.T) {
	t.Run("Next waits if the clock is 10 ms behind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, back := bubbleSnowflake()
			before, began := nextCode(t, s), time.Now()
			back.Store(int64(10 * time.Millisecond))
			after := nextCode(t, s)
			if took := time.Since(began); after <= before || took != 10*time.Millisecond {
				t.Errorf("the code %s came after %v, want a higher code than %s after 10 ms", after, took, before)
			}
		})
	})
	t.Run("Next fails at once if the clock is 10 s behind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, back := bubbleSnowflake()
			before, began := nextCode(t, s), time.Now()
			back.Store(int64(10 * time.Second))
			wantNoKeys(t, s, "the clock is 10 s behind")
			if took := time.Since(began); took > 0 {
				t.Errorf("the refusal took %v, want no wait", took)
			}
			time.Sleep(10*time.Second - 2*clockPatience)
			wantNoKeys(t, s, "the clock is 50 ms behind")
			time.Sleep(2 * clockPatience)
			if after := nextCode(t, s); after <= before {
				t.Errorf("the code after the clock had caught up is %s, want a higher code than %s", after, before)
			}
		})
	})
	t.Run("Next stops waiting when its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, back := bubbleSnowflake()
			nextCode(t, s)
			back.Store(int64(10 * time.Millisecond))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := s.Next(ctx, "", 0); !errors.Is(err, kgs.ErrNoKeys) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Next = %v, want ErrNoKeys and DeadlineExceeded", err)
			}
		})
	})
	t.Run("Next fails within 25 ms if the clock does not advance", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, _ := bubbleSnowflake()
			s.cfg.now = clockAt(100_000).now
			s.next = 100_001 << sequenceBits
			began := time.Now()
			wantNoKeys(t, s, "the clock does not advance")
			if took := time.Since(began); took > clockPatience {
				t.Errorf("the refusal took %v, want at most 25 ms", took)
			}
		})
	})
}

func TestSnowflakeMakesOneAllocationPerKey(t *testing.T) {
	clock := clockAt(100_000)
	s := &Snowflake{cfg: SnowflakeConfig{now: clock.now}, promise: promise{until: 1 << 40}}
	ctx := t.Context()
	n := testing.AllocsPerRun(1000, func() {
		clock.step(time.Millisecond)
		if _, err := s.Next(ctx, "", 0); err != nil {
			t.Error(err)
		}
	})
	if n != 1 {
		t.Errorf("a key takes %v allocations, want 1 for its code", n)
	}
}

func BenchmarkSnowflake(b *testing.B) {
	s := &Snowflake{cfg: SnowflakeConfig{now: time.Now}, promise: promise{until: 1 << 40}}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Next(b.Context(), "", 0); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
