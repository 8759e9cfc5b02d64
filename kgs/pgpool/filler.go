package pgpool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"keypool/kgs"
	"keypool/kgs/refill"
)

const (
	// reserveTerm is the minimum time from a Take until the reserved keys of a dead holder become
	// available again.
	reserveTerm = 10 * time.Minute
	// lapseInterval is the time between two searches for reserved keys of dead holders.
	lapseInterval = time.Minute
	// leastDrawn is the smallest number of codes that show whether the space is crowded. A Fill that
	// draws fewer codes does not call Crowded.
	leastDrawn = 100
)

// Filler refills a Pool with random codes. It draws codes and inserts each code that is neither in
// available_keys nor in used_keys. If another process takes a key at the same moment, the filler may
// insert this key again. Take drops the key later.
//
// Any number of fillers may fill one pool at the same time. The database runs their inserts one
// after the other. Each insert is one transaction, so after a crash either all its codes are in the
// pool or none.
type Filler struct {
	// Crowded is called when fewer than half of the codes that a Fill drew were new. In this case, at least about half
	// of all codes of the drawn length are used or in the pool. The caller sets Crowded before the first Fill. Crowded may
	// be nil.
	Crowded func()

	pool *Pool
	draw kgs.Generator
	log  *slog.Logger

	looked time.Time // end of the last complete search for keys of dead holders
}

var _ refill.Filler = (*Filler)(nil)

// NewFiller returns a filler that inserts the codes that draw yields. It does not access the
// database.
func NewFiller(pool *Pool, draw kgs.Generator, log *slog.Logger) *Filler {
	return &Filler{pool: pool, draw: draw, log: log}
}

// Prepare makes reserved keys of dead holders available again. It usually searches for such keys once a
// minute. It also opens a new pool. If the database was restored or promoted after the pool was filled,
// Prepare empties the pool; see [Pool.Status].
func (s *Filler) Prepare(ctx context.Context) error {
	if err := s.takeBack(ctx); err != nil {
		return err
	}
	_, err := s.pool.Status(ctx)
	if errors.Is(err, kgs.ErrNoEpoch) {
		return s.open(ctx)
	}
	return err
}

// Len returns how many keys the pool holds; see [Pool.Status].
func (s *Filler) Len(ctx context.Context) (int64, error) {
	status, err := s.pool.Status(ctx)
	return status.Keys, err
}

func (s *Filler) open(ctx context.Context) error {
	if _, err := s.pool.db.Exec(ctx, openPool); err != nil {
		return fmt.Errorf("open the pool: %w", err)
	}
	s.log.Info("opened an empty pool: the pool is new, or the database was restored or promoted")
	return nil
}

// takeBack makes the reserved keys of dead holders available again.
func (s *Filler) takeBack(ctx context.Context) error {
	if time.Since(s.looked) < lapseInterval {
		return nil
	}
	tag, err := s.pool.db.Exec(ctx, handBackLapsed, reserveTerm, maxKeys)
	if err != nil {
		return fmt.Errorf("take back reserved keys: %w", err)
	}
	if n := tag.RowsAffected(); n > 0 {
		s.log.Info("made the reserved keys of dead processes available again", slog.Int64("keys", n))
	}
	if tag.RowsAffected() < maxKeys {
		s.looked = time.Now()
	}
	return nil
}

// Fill draws n codes, but at most 10,000. It inserts the new codes, and returns how many codes it inserted.
func (s *Filler) Fill(ctx context.Context, n int64) (int64, error) {
	codes := make([]string, min(n, maxKeys))
	for i := range codes {
		k, err := s.draw.Next(ctx, "", 0)
		if err != nil {
			return 0, fmt.Errorf("draw keys: %w", err)
		}
		codes[i] = k.Code
	}
	tag, err := s.pool.db.Exec(ctx, putDrawn, codes)
	if err != nil {
		return 0, fmt.Errorf("push keys: %w", err)
	}
	if few := int64(len(codes)) >= leastDrawn && tag.RowsAffected() < int64(len(codes))/2; few && s.Crowded != nil {
		s.Crowded()
	}
	return tag.RowsAffected(), nil
}

// Release does nothing, because a filler reserves nothing.
func (s *Filler) Release(context.Context) error { return nil }
