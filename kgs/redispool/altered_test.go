package redispool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
)

// wantNewEpoch checks that the pool of s refuses to work and raises the alarm. Then it begins epoch 2, and checks that
// the first 10 keys of this epoch have the numbers want.
func (d fixture) wantNewEpoch(s *Filler, want codespace.Range) {
	d.t.Helper()
	if status, err := s.cfg.Pool.Status(d.t.Context()); !errors.Is(err, kgs.ErrNoEpoch) || !strings.Contains(status.Unsafe(), "altered") {
		d.t.Errorf("Status = %+v, %v, want ErrNoEpoch and an alarm", status, err)
	}
	d.wantSize(s, 0)
	d.wantEpoch(s, 2)
	d.fill(s, 10, 10)
	got, err := d.space.Ranges(kgstest.Drain(d.t, s.cfg.Pool, 100))
	if err != nil || len(got) != 1 || got[0] != want {
		d.t.Errorf("the new pool held the numbers %v (error %v), want %v", got, err, want)
	}
}

// TestInvalidValueInRedisCausesNewEpochOfPool writes a value to Redis that Keypool never writes. The pool must then
// refuse to work and raise the alarm. The next epoch must begin without the value.
func TestInvalidValueInRedisCausesNewEpochOfPool(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]any{
		"the epoch is too large":                     {"HSET", 0, "epoch", "9000000000000000000"},
		"the epoch is 2^52":                          {"HSET", 0, "epoch", "4503599627370496"},
		"the epoch is not a number":                  {"HSET", 0, "epoch", "many"},
		"the epoch is missing":                       {"HDEL", 0, "epoch"},
		"the epoch is 0":                             {"HSET", 0, "epoch", "0"},
		"a counter is negative":                      {"HSET", 0, "pushed", "-1"},
		"a number exceeds the code space":            {"HSET", 0, "next:6", "9000000000000000000"},
		"a number belongs to an invalid code length": {"HSET", 0, "next:60", "1"},
		"the range id is too large":                  {"HSET", 0, "range", "9000000000000000000"},
		"the range id is 2^52":                       {"HSET", 0, "range", "4503599627370496"},
		"the floor is too large":                     {"HSET", 0, "floor", "9000000000000000"},
		"the floor is not a number":                  {"HSET", 0, "floor", "x"},
		"the floor is missing":                       {"HDEL", 0, "floor"},
		"a mark is negative":                         {"HSET", 0, "mark:2", "-1"},
		"a mark is not a number":                     {"HSET", 0, "mark:2", "x"},
		"a code contains a line break":               {"LPUSH", 1, "abc\r\nd"},
		"a code has 33 characters":                   {"LPUSH", 1, strings.Repeat("a", 33)},
		"a code contains a letter outside base 62":   {"LPUSH", 1, "naïve"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			alarm := new(Alarm)
			s := d.filler("a")
			s.cfg.Pool.cfg.Alarm = alarm
			d.wantSize(s, 0)
			d.fill(s, 100, 100)
			earlier := kgstest.Take(t, s.cfg.Pool, 10)
			change[1] = s.cfg.Pool.keys[change[1].(int)]
			if err := d.client.Do(t.Context(), change...).Err(); err != nil {
				t.Fatal(err)
			}
			_ = s.cfg.Pool.Settle(t.Context(), earlier, earlier.Codes, nil) // may fail, but must return
			b, err := s.cfg.Pool.Take(t.Context(), 10)
			if err == nil {
				for _, code := range b.Codes {
					if !d.space.IsCode(code) {
						t.Errorf("Take returned %q", code)
					}
				}
			}
			d.wantNewEpoch(s, codespace.Range{Length: 6, Lo: 100, Hi: 110})
		})
	}
}

// TestInvalidMarkCausesNewEpochOfPool gives the next range a mark that no push of this range writes. The pool of the next
// epoch must begin with the numbers after this range.
func TestInvalidMarkCausesNewEpochOfPool(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]string{
		"above the range":                        "111",
		"below the range":                        "99",
		"the start of the range in another form": "+100",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			s := d.open("a")
			d.fill(s, 100, 100)
			if err := d.client.HSet(t.Context(), s.cfg.Pool.keys[0], "mark:2", mark).Err(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if n, err := s.Fill(ctx, 10); n != 0 || !errors.Is(err, kgs.ErrNoEpoch) {
				t.Fatalf("Fill with the mark %s = %d, %v, want ErrNoEpoch", mark, n, err)
			}
			d.wantNewEpoch(s, codespace.Range{Length: 6, Lo: 110, Hi: 120})
		})
	}
}

// No script works with a Redis key that has a wrong type, so the pool needs a new epoch.
func TestKeyOfOtherTypeCausesNewEpochOfPool(t *testing.T) {
	t.Parallel()
	for i, key := range []string{"state", "keys", "batches", "doomed", "takes"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			s := d.open("a")
			d.fill(s, 50, 50)
			p := s.cfg.Pool
			if err := errors.Join(d.client.Del(t.Context(), p.keys[i]).Err(), d.client.Set(t.Context(), p.keys[i], "text", 0).Err()); err != nil {
				t.Fatal(err)
			}
			_, takeErr := p.Take(t.Context(), 10)
			_, sweepErr := p.Sweep(t.Context())
			if err := errors.Join(takeErr, sweepErr); !isWrongType(err) {
				t.Errorf("Take and Sweep: %v, want an error about the type of a key", err)
			}
			d.wantNewEpoch(s, codespace.Range{Length: 6, Lo: 50, Hi: 60})
		})
	}
}

// TestRedisPoolSweepIgnoresInvalidCodes puts a string that is not a code, or a code twice, into the batch of a dead holder.
func TestRedisPoolSweepIgnoresInvalidCodes(t *testing.T) {
	t.Parallel()
	for _, batch := range []string{"000001 a\r\nb 000002", "000002 000001 000002"} {
		p, book := newOpenPool(t)
		if err := p.client.HSet(t.Context(), p.keys[2], "dead/1", batch).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Sweep(t.Context()); err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
			t.Errorf("Sweep with the batch %q: %v", batch, err)
		}
		if got := codespace.Count(book.ranges[kgs.ReasonCrash]); got != 2 {
			t.Errorf("the sweep abandoned %d codes of the batch %q, want 2", got, batch)
		}
		if status, err := p.Status(t.Context()); !errors.Is(err, kgs.ErrNoEpoch) || !strings.Contains(status.Unsafe(), "altered") {
			t.Errorf("Status after the batch %q = %+v, %v, want ErrNoEpoch and an alarm", batch, status, err)
		}
	}
}
