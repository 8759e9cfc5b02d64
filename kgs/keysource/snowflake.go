package keysource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// A Snowflake number has four fields, from the highest bit to the lowest: a sign bit that is always
// 0, the milliseconds since snowflakeEpoch, the machine id, and a sequence number within the
// millisecond.
const (
	timeBits     = 41
	machineBits  = 10
	sequenceBits = 12
	// snowflakeEpoch is 2026-01-01T00:00:00Z. 41 bits of milliseconds are sufficient until
	// September 2095.
	snowflakeEpoch = 1_767_225_600_000
	// snowflakeLength is the number of base 62 digits that 63 bits need.
	snowflakeLength = 11
)

// clockPatience is the longest time for which one call of Next waits for the clock.
const clockPatience = 25 * time.Millisecond

// SnowflakeConfig is the configuration of a Snowflake.
type SnowflakeConfig struct {
	Machines *MachineIDs
	Holder   string // names this process in the table of machine ids
	Machine  int    // machine id from 0 to 1023; a negative value selects any free id
	Logger   *slog.Logger

	now func() time.Time // clock of the generator; nil means time.Now
}

// Snowflake makes each key from the time, a machine id and a sequence number (Twitter, 2010),
// in base 62. The keys sort by time. A key needs no network round trip and no coordination with
// other processes.
//
// Invariant: two generators never make the same number, even if their clocks are wrong. A process
// that acquires a machine id makes a promise, which is a row in the database. The promise says that
// the id belongs to this process until a given time: the end of the promise. The process makes only
// numbers with times before the end. The next holder of the id makes only numbers with times at the
// end or later. So the holders of an id use different times, even if their clocks differ or a process
// was frozen.
//
// Call Open first, then Run. Next is safe for concurrent use at any time.
type Snowflake struct {
	cfg     SnowflakeConfig
	timeout time.Duration // promiseTimeout, except in tests

	mu      sync.Mutex
	promise promise // promise for the machine id; the zero value if there is no machine id
	next    int64   // lowest time and sequence number that the next number may have
	failing error   // error of the last attempt to acquire a machine id or to extend the promise; nil after a success
}

var _ kgs.Generator = (*Snowflake)(nil)

// NewSnowflake returns a generator that has no machine id yet.
func NewSnowflake(cfg SnowflakeConfig) *Snowflake {
	if cfg.now == nil {
		cfg.now = time.Now
	}
	return &Snowflake{cfg: cfg, timeout: promiseTimeout}
}

// Next returns the key of a new number. It makes no network call. If all 4,096 numbers of a millisecond
// are used, or if the clock was set back, Next waits for up to 25 ms, or until ctx ends. It fails with
// ErrNoKeys in these cases:
//
//   - ctx ends while Next waits;
//   - the clock was set back by more than 25 ms, and has not caught up yet. If the clock was set back by
//     more than a second and no machine id is configured, Next fails only until [Snowflake.Run] has
//     acquired another machine id;
//   - the process has no machine id, or the promise has ended. Next fails until Run has extended the
//     promise or acquired a machine id;
//   - the 41 bits of the time are used up.
func (s *Snowflake) Next(ctx context.Context, _ string, _ int) (kgs.Key, error) {
	for waited := time.Duration(0); ; {
		n, wait, err := s.take()
		if err != nil {
			return kgs.Key{}, fmt.Errorf("%w: %w", kgs.ErrNoKeys, err)
		}
		if wait <= 0 {
			var code [snowflakeLength]byte
			return kgs.Key{Code: string(codespace.AppendBase62(code[:0], snowflakeLength, n)), Source: kgs.SourceSnowflake}, nil
		}
		if waited += wait; waited > clockPatience {
			return kgs.Key{}, fmt.Errorf("%w: %w", kgs.ErrNoKeys, s.late(wait))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return kgs.Key{}, fmt.Errorf("%w: %w", kgs.ErrNoKeys, ctx.Err())
		}
	}
}

// take returns the next number. If the clock has not reached the time of this number, take returns
// how long to wait.
func (s *Snowflake) take() (n int64, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.now()
	next := max(s.next, sinceEpoch(now)<<sequenceBits)
	ms := next >> sequenceBits
	switch {
	case time.UnixMilli(snowflakeEpoch + ms).After(now):
		return 0, time.UnixMilli(snowflakeEpoch + ms).Sub(now), nil
	case ms >= s.promise.until:
		return 0, 0, s.refusal()
	case ms>>timeBits != 0:
		return 0, 0, kgs.ErrExhausted
	}
	s.next = next + 1 // after the last sequence number, this carries into the next millisecond
	return ms<<(machineBits+sequenceBits) | int64(s.promise.id)<<sequenceBits | next&(1<<sequenceBits-1), 0, nil
}

// refusal returns the reason why no number can be made. The caller holds mu.
func (s *Snowflake) refusal() error {
	err := errors.New("the promise of the machine id has ended")
	if s.promise.holder == "" {
		err = errors.New("no machine id is acquired")
	}
	return s.withCause(err)
}

// late returns the error of Next for a clock that is behind the last key. The duration d is the difference.
func (s *Snowflake) late(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withCause(clockBehind(d))
}

// withCause returns err, followed by the error of the last attempt to acquire a machine id or to extend the promise.
// The caller holds mu.
func (s *Snowflake) withCause(err error) error {
	if s.failing != nil {
		err = fmt.Errorf("%w: %w", err, s.failing)
	}
	return err
}

func clockBehind(d time.Duration) error { return fmt.Errorf("the clock is %v behind the last key", d) }

// sinceEpoch converts a time to milliseconds since snowflakeEpoch.
func sinceEpoch(t time.Time) int64 { return t.UnixMilli() - snowflakeEpoch }

// SnowflakeFields are the fields of a Snowflake number.
type SnowflakeFields struct {
	Time     time.Time `json:"time"` // time in UTC, with a precision of a millisecond
	Machine  int       `json:"machine"`
	Sequence int64     `json:"sequence"`
}

// ParseSnowflake returns the fields of the Snowflake number with the given code. ok is false if there is no such
// number.
func ParseSnowflake(code string) (fields SnowflakeFields, ok bool) {
	if len(code) != snowflakeLength {
		return fields, false
	}
	n := int64(0)
	for i := range len(code) {
		digit := int64(strings.IndexByte(codespace.Alphabet, code[i]))
		if digit < 0 || n > (math.MaxInt64-digit)/codespace.Base {
			return fields, false
		}
		n = n*codespace.Base + digit
	}
	return SnowflakeFields{
		Time:     time.UnixMilli(snowflakeEpoch + n>>(machineBits+sequenceBits)).UTC(),
		Machine:  int(n >> sequenceBits & (1<<machineBits - 1)),
		Sequence: n & (1<<sequenceBits - 1),
	}, true
}
