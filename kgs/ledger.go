package kgs

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// postTimeout is the most that one change of the ledger may take, waiting included.
const postTimeout = 10 * time.Second

// ErrWrongSecret says that the ledger belongs to another permutation than the one
// asked for. To go on would give out codes twice.
var ErrWrongSecret = errors.New("the ledger belongs to another permutation")

// ErrNeverOpened says that there is no ledger yet: no server or worker was ever started on
// this database.
var ErrNeverOpened = errors.New("there is none: no server or worker was ever started on this database")

// RangeState is what a range of the ledger is there for.
type RangeState string

// The states of a range. A range that is delivered or settled has no row any more.
const (
	RangeReserved  RangeState = "reserved"  // held back for a pool in a process, or for anyone
	RangeShipping  RangeState = "shipping"  // on its way to the shared pool of the current epoch
	RangeBatch     RangeState = "batch"     // in the local batch of a server, or lent to a client
	RangeAbandoned RangeState = "abandoned" // given up for good
)

// Ledger is the durable book of all numbers: how far each space is walked, and
// which process works on which range. It is kept in the database of the links.
//
// Every change is one transaction that locks the one row of the ledger first, so
// changes happen one after the other whatever number of processes there is, and
// range ids become visible in the order they were given. A crash in the middle of a
// method leaves the ledger as it was before; what a crash just after it does, each
// method says. No clock decides anything (see Sweep), but when the lease of a client ends,
// which gives its keys to nobody else. A database that came back from an older state is
// found out before anything else is done: see jump.
//
// Methods may be called from any goroutine. They block as long as ctx allows, each change
// no longer than 10 s but for Open, which has no other bound. An error that is none of this
// package's means that the database failed or could not be reached, and that the
// change may or may not have been made.
type Ledger struct {
	write, read *sql.DB // the same where readers do not get in the way of writers
	dialect     dialect
	close       func() error
	beats       beats            // of all holders, as Sweep saw them
	reached     reach            // what this process has seen the ledger come to
	name        atomic.Value     // string
	onJump      func(left int64) // nil for nobody
}

// Name tells this ledger from every other one, for life; it is known after Open.
func (l *Ledger) Name() string {
	name, _ := l.name.Load().(string)
	return name
}

// Close ends the use of the database, which itself stays open.
func (l *Ledger) Close() error { return l.close() }

// dialect is what the engines do not say alike.
type dialect struct {
	begin    string        // bounds a transaction whose client is frozen; empty for none
	lock     string        // locks the ledger's row and reads epoch, last_range, history and the present history
	renew    string        // counts one more beat of holder $1
	now      string        // the time, in microseconds since 1970
	snapshot sql.TxOptions // a transaction that reads one state throughout
}

// LedgerConfig chooses the permutation of a ledger, once and for all.
type LedgerConfig struct {
	Secret  []byte // the FF1 key, 16 or 32 bytes; nil to have one made and kept in the ledger
	Permute bool   // false: codes in counter order, and no secret
}

// Open makes the ledger where there is none yet, and gives its space. Of a secret
// that was supplied only the fingerprint is kept. It fails with ErrWrongSecret
// when the ledger was made with another secret, or permuted and now is not to be.
// A crash leaves either no ledger or a complete one; of several processes that make
// it at once one wins and the others use its secret.
func (l *Ledger) Open(ctx context.Context, cfg LedgerConfig) (*Space, error) {
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
func (l *Ledger) Identify(ctx context.Context, cfg LedgerConfig) (*Space, error) {
	space, _, err := cfg.space()
	if err != nil {
		return nil, err
	}
	return l.identify(ctx, cfg, space)
}

// identify compares the ledger's space with the one asked for. A secret that the ledger keeps
// stands for one that nobody asked for.
func (l *Ledger) identify(ctx context.Context, cfg LedgerConfig, space *Space) (*Space, error) {
	var kept []byte
	var fingerprint, name string
	err := l.write.QueryRowContext(ctx, `SELECT secret, fingerprint, name FROM kgs_ledger WHERE id = 1`).
		Scan(&kept, &fingerprint, &name)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNeverOpened
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: open: %w", err)
	}
	l.name.Store(name)
	if cfg.Permute && cfg.Secret == nil && kept != nil {
		if space, err = NewSpace(kept); err != nil {
			return nil, fmt.Errorf("ledger: open: %w", err)
		}
	}
	if space.Fingerprint() != fingerprint {
		return nil, cfg.wrongSecret(fingerprint)
	}
	return space, nil
}

// space gives the space that cfg asks for and the secret that was made for it, if any.
func (cfg LedgerConfig) space() (space *Space, made sql.Null[[]byte], err error) {
	switch {
	case !cfg.Permute:
		return PlainSpace(), made, nil
	case cfg.Secret == nil:
		made = sql.Null[[]byte]{V: make([]byte, 16), Valid: true}
		rand.Read(made.V) // never fails
		space, err = NewSpace(made.V)
	default:
		space, err = NewSpace(cfg.Secret)
	}
	return space, made, err
}

func (cfg LedgerConfig) wrongSecret(fingerprint string) error {
	advice := "KGS_SECRET (--kgs-secret): got another secret, takes the one that the ledger was made with"
	switch {
	case !cfg.Permute:
		advice = "KGS_PERMUTE (--kgs-permute): got \"false\", takes true, for this ledger permutes its codes"
	case fingerprint == PlainSpace().Fingerprint():
		advice = "KGS_PERMUTE (--kgs-permute): got \"true\", takes false, for this ledger keeps counter order"
	case cfg.Secret == nil:
		advice = "KGS_SECRET (--kgs-secret): got none, takes the secret that the ledger was made with"
	}
	return fmt.Errorf("%w: %s", ErrWrongSecret, advice)
}

// posting is one change of the ledger, under the lock of its row.
type posting struct {
	*sql.Tx
	dialect *dialect
	epoch   int64
	last    int64 // the range id that was given last
	reached *reach
	left    int64 // numbers that were left out by a jump
}

// post runs f as one transaction and commits it when f succeeds.
func (l *Ledger) post(ctx context.Context, op string, f func(context.Context, *posting) error) error {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	if err := l.postTx(ctx, f); err != nil {
		return fmt.Errorf("ledger: %s: %w", op, err)
	}
	return nil
}

func (l *Ledger) postTx(ctx context.Context, f func(context.Context, *posting) error) error {
	tx, err := l.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing and says so
	if l.dialect.begin != "" {
		if _, err := tx.ExecContext(ctx, l.dialect.begin); err != nil {
			return err
		}
	}
	p := &posting{Tx: tx, dialect: &l.dialect, reached: &l.reached}
	var kept, present string
	err = tx.QueryRowContext(ctx, l.dialect.lock).Scan(&p.epoch, &p.last, &kept, &present)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNeverOpened
	}
	if err != nil {
		return err
	}
	last := p.last
	if err := p.keepUp(ctx, kept, present); err != nil {
		return err
	}
	if err := f(ctx, p); err != nil {
		return err
	}
	if p.last != last {
		if err := p.exec(ctx, `UPDATE kgs_ledger SET last_range = $1 WHERE id = 1`, p.last); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	l.reached.note(Reach{Range: p.last})
	if p.left > 0 && l.onJump != nil {
		l.onJump(p.left)
	}
	return nil
}

func (p *posting) exec(ctx context.Context, query string, args ...any) error {
	_, err := p.ExecContext(ctx, query, args...)
	return err
}

// insert adds a row for run under a new id.
func (p *posting) insert(ctx context.Context, run Run, state RangeState, holder, reason string) (Range, error) {
	p.last++
	r := Range{Run: run, ID: p.last, Epoch: p.epoch}
	return r, p.exec(ctx,
		`INSERT INTO kgs_ranges (id, length, lo, hi, state, holder, reason, epoch) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		r.ID, r.Length, r.Lo, r.Hi, string(state), holder, reason, r.Epoch)
}
