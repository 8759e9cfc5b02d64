package kgs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A Snowflake number, from the top: a sign that is never set, the milliseconds since
// snowflakeEpoch, the machine id, and a sequence within the millisecond.
const (
	timeBits     = 41
	machineBits  = 10
	sequenceBits = 12
	// snowflakeEpoch is 2026-01-01T00:00:00Z; from there the time lasts until September 2095.
	snowflakeEpoch = 1_767_225_600_000
	// snowflakeLength is how many digits of base 62 hold 63 bits.
	snowflakeLength = 11
)

// clockPatience is how long one key waits for the clock in all.
const clockPatience = 25 * time.Millisecond

// SnowflakeConfig is what a Snowflake is made of.
type SnowflakeConfig struct {
	Ledger  *Ledger // machine ids are leased in its database
	Holder  string  // names this process there
	Machine int     // 0 to 1023, or negative for any that is free
	Logger  *slog.Logger

	now func() time.Time // time.Now when nil
}

// Snowflake makes keys of the time, a machine id and a sequence (Twitter, 2010), in base 62
// and so in the order of time. No key costs a round trip, and none a word with anybody.
//
// That two generators make no number twice is not left to their clocks. A machine id is
// leased up to a time, and its holder promises to make numbers with earlier times only;
// whoever has the id next begins at that time or later. Intervals of (machine, time) are
// disjoint therefore, whatever a clock says, and whoever was frozen in between can do no
// more than use up his own.
//
// Open comes first, then Run. Next may be called from any goroutine, at any time.
type Snowflake struct {
	cfg      SnowflakeConfig
	machines machines

	mu      sync.Mutex
	lease   promise // of nobody while there is none
	next    int64   // time and sequence of the first number that was not given yet
	failing error   // why there is no lease, or why it is not extended
}

var _ Generator = (*Snowflake)(nil)

// NewSnowflake makes a generator that has no machine id yet.
func NewSnowflake(cfg SnowflakeConfig) *Snowflake {
	if cfg.now == nil {
		cfg.now = time.Now
	}
	return &Snowflake{cfg: cfg, machines: machines{cfg.Ledger.write}}
}

// Next neither blocks nor talks to anyone, but for two cases in which it waits for up to
// 25 ms: when the 4,096 numbers of a millisecond are used up, and when the clock was set back.
// A clock that was set back further gives ErrNoKeys until it has caught up, and so does a
// lease that has run out, until [Snowflake.Run] has mended that.
func (s *Snowflake) Next(ctx context.Context, _ string, _ int) (Key, error) {
	for waited := time.Duration(0); ; {
		n, wait, err := s.take()
		if err != nil {
			return Key{}, fmt.Errorf("%w: %w", ErrNoKeys, err)
		}
		if wait <= 0 {
			var code [snowflakeLength]byte
			return Key{Code: string(appendBase62(code[:0], snowflakeLength, n)), Source: SourceSnowflake}, nil
		}
		if waited += wait; waited > clockPatience {
			return Key{}, fmt.Errorf("%w: %w", ErrNoKeys, clockBehind(wait))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return Key{}, fmt.Errorf("%w: %w", ErrNoKeys, ctx.Err())
		}
	}
}

// take gives the next number, or says how long the clock takes to get there.
func (s *Snowflake) take() (n int64, wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.now()
	next := max(s.next, sinceEpoch(now)<<sequenceBits)
	ms := next >> sequenceBits
	switch {
	case time.UnixMilli(snowflakeEpoch + ms).After(now):
		return 0, time.UnixMilli(snowflakeEpoch + ms).Sub(now), nil
	case ms >= s.lease.until:
		return 0, 0, s.refusal()
	case ms>>timeBits != 0:
		return 0, 0, ErrExhausted
	}
	s.next = next + 1 // after the last of a millisecond that is the first of the next one
	return ms<<(machineBits+sequenceBits) | int64(s.lease.id)<<sequenceBits | next&(1<<sequenceBits-1), 0, nil
}

// refusal says why there is no number. The caller holds mu.
func (s *Snowflake) refusal() error {
	err := errors.New("the lease of a machine id has run out")
	if s.lease.holder == "" {
		err = errors.New("no machine id is leased")
	}
	if s.failing != nil {
		err = fmt.Errorf("%w: %w", err, s.failing)
	}
	return err
}

func clockBehind(d time.Duration) error { return fmt.Errorf("the clock is %v behind the last key", d) }

// sinceEpoch is a time as Snowflakes count it.
func sinceEpoch(t time.Time) int64 { return t.UnixMilli() - snowflakeEpoch }
