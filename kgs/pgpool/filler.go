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
	// reserveTerm is for how long a key stays reserved after its holder has died.
	reserveTerm = 10 * time.Minute
	// lapseInterval is how often such keys are looked for.
	lapseInterval = time.Minute
)

// Filler is the batch job that refills a Pool: it draws codes and
// inserts those that are neither there nor used. That they were not used at that very
// moment either is found out when they are taken. Any number may work at once; they insert one after the other. Nothing is ever
// under way: a crash leaves a chunk that is in the pool, or is not.
type Filler struct {
	pool *Pool
	draw kgs.Generator
	log  *slog.Logger

	looked time.Time // when all keys whose term had ended were taken back
}

var _ refill.Filler = (*Filler)(nil)

// NewFiller makes a filler of the codes that draw yields; it calls nobody.
func NewFiller(pool *Pool, draw kgs.Generator, log *slog.Logger) *Filler {
	return &Filler{pool: pool, draw: draw, log: log}
}

// Prepare takes back, once a minute, what dead holders had reserved, and empties a pool
// that is not of the database's present history.
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

// Len is how many keys the pool holds, by its [Pool.Status].
func (s *Filler) Len(ctx context.Context) (int64, error) {
	status, err := s.pool.Status(ctx)
	return status.Keys, err
}

func (s *Filler) open(ctx context.Context) error {
	if _, err := s.pool.db.Exec(ctx, openPool); err != nil {
		return fmt.Errorf("open the pool: %w", err)
	}
	s.log.Info("the pool of keys begins anew with the history of its database")
	return nil
}

// takeBack makes the keys of dead holders available again.
func (s *Filler) takeBack(ctx context.Context) error {
	if time.Since(s.looked) < lapseInterval {
		return nil
	}
	tag, err := s.pool.db.Exec(ctx, handBackLapsed, reserveTerm, maxKeys)
	if err != nil {
		return fmt.Errorf("take back reserved keys: %w", err)
	}
	if n := tag.RowsAffected(); n > 0 {
		s.log.Info("keys that a dead process had reserved are available again", slog.Int64("keys", n))
	}
	if tag.RowsAffected() < maxKeys {
		s.looked = time.Now()
	}
	return nil
}

// Fill draws up to n keys, 10,000 at the most, and reports how many were new.
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
	return tag.RowsAffected(), nil
}

// Release does nothing, for nothing is under way.
func (s *Filler) Release(context.Context) error { return nil }
