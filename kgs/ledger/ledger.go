// Package ledger is the durable record of all numbers: how far each space is used, which
// process holds which range, and what was given up for which reason. It is kept in the
// database of the links.
//
// Vocabulary:
//
//   - a reservation is a range that the ledger has a row for; its state is reserved,
//     shipping, batch or abandoned. A range that is delivered or settled has no row;
//   - a holder is a process that reservations belong to; a heartbeat is its sign of life;
//   - an epoch is one generation of the shared pool;
//   - a lease is numbers on loan to an external client, with an expiry;
//   - the high-water mark is the highest number known to be issued. A rollback is a database
//     that came back from an older state; the ledger then skips ahead of that mark.
//
// Invariants:
//
//   - no two rows that hand out numbers overlap, and no number is reserved twice, but for
//     those that came back unused;
//   - a crash between any two changes leaves every number in exactly one place.
package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"keypool/kgs/codespace"
)

// ErrWrongSecret says that the ledger belongs to another permutation than the one
// asked for. To go on would give out codes twice.
var ErrWrongSecret = errors.New("the ledger belongs to another permutation")

// ErrNotInitialized says that there is no ledger yet: no server or worker was ever started on
// this database.
var ErrNotInitialized = errors.New("there is none: no server or worker was ever started on this database")

// Ledger is the durable book of all numbers: how far each space is walked, and
// which process works on which range. It is kept in the database of the links.
//
// Every change is one transaction that locks the one row of the ledger first, so
// changes happen one after the other whatever number of processes there is, and
// range ids become visible in the order they were given. A crash in the middle of a
// method leaves the ledger as it was before; what a crash just after it does, each
// method says. No clock decides anything (see Sweep), but when the lease of a client ends,
// which gives its keys to nobody else. A database that came back from an older state is
// found out before anything else is done: see skipAhead.
//
// Methods may be called from any goroutine. They block as long as ctx allows, each change
// no longer than 10 s but for Open, which has no other bound. An error that is none of this
// package's means that the database failed or could not be reached, and that the
// change may or may not have been made.
type Ledger struct {
	write, read *sql.DB // the same where readers do not get in the way of writers
	dialect     dialect
	close       func() error
	heartbeats  heartbeats       // of all holders, as Sweep saw them
	highWater   highWater        // what this process has seen the ledger come to
	name        atomic.Value     // string
	onSkipAhead func(left int64) // nil for nobody
}

// Name tells this ledger from every other one, for life; it is known after Open.
func (l *Ledger) Name() string {
	name, _ := l.name.Load().(string)
	return name
}

// Close ends the use of the database, which itself stays open.
func (l *Ledger) Close() error { return l.close() }

// Config chooses the permutation of a ledger, once and for all.
type Config struct {
	Secret  []byte // the FF1 key, 16 or 32 bytes; nil to have one made and kept in the ledger
	Permute bool   // false: codes in counter order, and no secret
}

// Open makes the ledger where there is none yet, and gives its space. Of a secret
// that was supplied only the fingerprint is kept. It fails with ErrWrongSecret
// when the ledger was made with another secret, or permuted and now is not to be.
// A crash leaves either no ledger or a complete one; of several processes that make
// it at once one wins and the others use its secret.
func (l *Ledger) Open(ctx context.Context, cfg Config) (*codespace.Space, error) {
	space, made, err := cfg.space()
	if err != nil {
		return nil, err
	}
	_, err = l.write.ExecContext(ctx,
		`INSERT INTO kgs_ledger (id, secret, fingerprint) VALUES (1, $1, $2) ON CONFLICT (id) DO NOTHING`,
		made, space.Fingerprint())
	if err != nil {
		return nil, fmt.Errorf("ledger: open: %w", err)
	}
	_, err = l.write.ExecContext(ctx, `UPDATE kgs_ledger SET name = $1 WHERE id = 1 AND name = ''`, rand.Text()[:12])
	if err != nil {
		return nil, fmt.Errorf("ledger: open: %w", err)
	}
	return l.identify(ctx, cfg, space)
}

// Identify gives the space of a ledger that was opened before, and changes nothing. It fails
// as Open does, and with ErrNeverOpened.
func (l *Ledger) Identify(ctx context.Context, cfg Config) (*codespace.Space, error) {
	space, _, err := cfg.space()
	if err != nil {
		return nil, err
	}
	return l.identify(ctx, cfg, space)
}

// identify compares the ledger's space with the one asked for. A secret that the ledger keeps
// stands for one that nobody asked for.
func (l *Ledger) identify(ctx context.Context, cfg Config, space *codespace.Space) (*codespace.Space, error) {
	var kept []byte
	var fingerprint, name string
	err := l.write.QueryRowContext(ctx, `SELECT secret, fingerprint, name FROM kgs_ledger WHERE id = 1`).
		Scan(&kept, &fingerprint, &name)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotInitialized
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: open: %w", err)
	}
	l.name.Store(name)
	if cfg.Permute && cfg.Secret == nil && kept != nil {
		if space, err = codespace.New(kept); err != nil {
			return nil, fmt.Errorf("ledger: open: %w", err)
		}
	}
	if space.Fingerprint() != fingerprint {
		return nil, cfg.wrongSecret(fingerprint)
	}
	return space, nil
}

// space gives the space that cfg asks for and the secret that was made for it, if any.
func (cfg Config) space() (space *codespace.Space, made sql.Null[[]byte], err error) {
	switch {
	case !cfg.Permute:
		return codespace.Plain(), made, nil
	case cfg.Secret == nil:
		made = sql.Null[[]byte]{V: make([]byte, 16), Valid: true}
		rand.Read(made.V) // never fails
		space, err = codespace.New(made.V)
	default:
		space, err = codespace.New(cfg.Secret)
	}
	return space, made, err
}

func (cfg Config) wrongSecret(fingerprint string) error {
	advice := "KGS_SECRET (--kgs-secret): got another secret, takes the one that the ledger was made with"
	switch {
	case !cfg.Permute:
		advice = "KGS_PERMUTE (--kgs-permute): got \"false\", takes true, for this ledger permutes its codes"
	case fingerprint == codespace.Plain().Fingerprint():
		advice = "KGS_PERMUTE (--kgs-permute): got \"true\", takes false, for this ledger keeps counter order"
	case cfg.Secret == nil:
		advice = "KGS_SECRET (--kgs-secret): got none, takes the secret that the ledger was made with"
	}
	return fmt.Errorf("%w: %s", ErrWrongSecret, advice)
}
