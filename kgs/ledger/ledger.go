// Package ledger is the durable record of all numbers. It records how many numbers of each code
// length are reserved, which process holds which range, and which numbers are abandoned and why.
// It is stored in the same database as the links.
//
// Vocabulary:
//
//   - a reservation is a range that has a row in the ledger. Its state is reserved, shipping (on
//     its way to the shared pool), batch or abandoned;
//   - a shipping range is delivered when all its codes are in the pool. A range that is
//     delivered or settled has no row;
//   - a cut turns the first numbers of a reserved range into a batch;
//   - a holder is the process, or the worker of a process, that a reservation belongs to. It sends
//     heartbeats to the ledger;
//   - a sweep finds the holders that send no new heartbeats, declares them dead and abandons their
//     batches;
//   - the shared pool is the pool in Redis, which servers and workers share. It consists of one list or
//     more. An epoch is one generation of a list;
//   - a lease is keys on loan to an external client, with an expiry;
//   - the high-water mark consists of the highest number of each code length that is known to be issued, and
//     the highest known id of a reservation;
//   - a rollback is the return of the database to an older state. The ledger then skips ahead:
//     it advances its counters past the high-water mark.
//
// Invariants:
//
//   - the ranges of two rows do not overlap, with one exception. Servers may take keys of a shipping range before the
//     range is delivered, and the ledger may abandon such keys before the delivery. The row of the abandoned numbers
//     then overlaps the shipping row, and begins after the first number of the shipping row;
//   - a number is handed out a second time only if it was returned unused;
//   - after a crash between any two changes, every reserved number is in exactly one of the places
//     that package kgs lists.
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

// ErrWrongSecret means that the requested permutation of the codes differs from the permutation with
// which the ledger was created. With a different permutation, the ledger would hand out codes twice.
var ErrWrongSecret = errors.New("the ledger belongs to another permutation")

// ErrNotInitialized means that the database has no ledger, because no server or worker has been
// started on it.
var ErrNotInitialized = errors.New("not initialized: run `shortener migrate`, then start a server or worker")

// ErrReplaced means that the database no longer has the ledger that this process opened. The process must end, because
// its code space, its keys and its high-water mark belong to that ledger.
var ErrReplaced = errors.New("`shortener reindex --replace-secret` or the restore of a backup has replaced or deleted the ledger of the database: " +
	"start this program again, with the KGS_SECRET of the present ledger")

// Ledger is the durable record of all numbers. It is stored in the database of the links.
//
// Every change consists of one or more transactions. Except in Open, Replace and Restored, each transaction first
// locks the only row of kgs_ledger and then checks for a rollback, as detectRollback documents. Because of the
// lock, the changes of all processes run one after the other, and range ids become visible in the order in which
// they are assigned.
//
// A crash before the commit of a change leaves the ledger unchanged. Each method documents the
// effect of a later crash. Only the expiry of leases and RepeatedEpochs depend on the time of day. Even if
// the clock is wrong, no number is handed out twice, because the numbers of an expired lease are abandoned.
//
// All methods are safe for concurrent use. They return when ctx ends. On SQLite, they may return later: they wait up to
// 5 s for the lock of another process, and up to 5 s for the write of the witness; see KeepWitness. A transaction of a
// change takes at most 10 s. Open, Replace and the methods that only read have no time limit besides ctx.
//
// The errors with a special meaning are variables of this package and of package kgs. Any other error means that an
// argument is invalid, or that the database failed or could not be reached. After a failure of the database, it is
// unknown whether the change was made.
type Ledger struct {
	write, read *sql.DB // one database handle on PostgreSQL; separate connections on SQLite
	dialect     dialect
	close       func() error
	random      func(n int64) int64   // returns a random number from 0 to n-1; tests may replace it
	heartbeats  heartbeats            // the heartbeats that the last Sweep read, for each holder
	highWater   highWater             // high-water mark of this process
	name        atomic.Value          // the string that Name returns
	database    atomic.Value          // the string that Database returns
	onSkipAhead func(abandoned int64) // the function of OnSkipAhead; may be nil
	witness     *witness              // nil unless KeepWitness was called
}

// Name returns the permanent, random name of this ledger. It is empty before Open or Identify, and after Replace until
// the next Open.
func (l *Ledger) Name() string {
	name, _ := l.name.Load().(string)
	return name
}

// recognizeName fails with ErrReplaced if name differs from the name of this ledger. If one of the two names is empty,
// recognizeName succeeds.
func (l *Ledger) recognizeName(name string) error {
	if own := l.Name(); own != "" && name != "" && name != own {
		return ErrReplaced
	}
	return nil
}

// Database returns a name of the database in digits and slashes. A copy of the tables has a different name if it is in
// another PostgreSQL cluster, database or schema. A promoted standby keeps the name. The name is empty for an SQLite
// file, and before Open or Identify.
func (l *Ledger) Database() string {
	name, _ := l.database.Load().(string)
	return name
}

// Close ends the use of the database, but does not close the database.
func (l *Ledger) Close() error { return l.close() }

// Config selects the permutation of a ledger, which cannot change later.
type Config struct {
	Secret  []byte // the FF1 key, 16 or 32 bytes; if nil, Open makes a secret and stores it in the ledger
	Permute bool   // if false, codes are in counter order and there is no secret
}

// Open creates the ledger if the database has none, and returns the code space of the ledger. If cfg
// has a secret, a new ledger stores only the fingerprint of this secret. Open fails with ErrWrongSecret if the
// ledger was created with another secret or with another value of Permute. It fails with ErrWitness if
// the ledger has a witness that cannot be used. After a crash, the database has no ledger, or a ledger
// that the next Open completes. If several processes create the ledger at once, only one secret is
// stored, and all processes use it.
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
	if space, err = l.identify(ctx, cfg, space); err != nil {
		return nil, err
	}
	if err := l.openWitness(ctx); err != nil {
		return nil, err
	}
	return space, nil
}

// Identify returns the code space of an existing ledger and changes nothing. It fails with the
// errors of Open except ErrWitness, and with ErrNotInitialized if there is no ledger.
func (l *Ledger) Identify(ctx context.Context, cfg Config) (*codespace.Space, error) {
	space, _, err := cfg.space()
	if err != nil {
		return nil, err
	}
	return l.identify(ctx, cfg, space)
}

// identify returns the code space of an existing ledger, and stores the names of the ledger and of its database in l.
// The parameter space is the code space that cfg requests; see recognize.
func (l *Ledger) identify(ctx context.Context, cfg Config, space *codespace.Space) (*codespace.Space, error) {
	var kept []byte
	var fingerprint, name, database string
	err := l.write.QueryRowContext(ctx, `SELECT secret, fingerprint, name, `+l.dialect.identity+` FROM kgs_ledger WHERE id = 1`).
		Scan(&kept, &fingerprint, &name, &database)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotInitialized
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: identify: %w", err)
	}
	l.name.Store(name)
	l.database.Store(database)
	return cfg.recognize(space, kept, fingerprint)
}

// recognize returns the code space of the ledger with the given fingerprint. The parameter space is the code space that
// cfg requests. If cfg permutes codes but has no secret, recognize uses kept, the secret that the ledger stores.
// recognize fails with ErrWrongSecret if the ledger has another code space.
func (cfg Config) recognize(space *codespace.Space, kept []byte, fingerprint string) (_ *codespace.Space, err error) {
	if cfg.Permute && cfg.Secret == nil && kept != nil {
		if space, err = codespace.New(kept); err != nil {
			return nil, fmt.Errorf("ledger: identify: %w", err)
		}
	}
	if space.Fingerprint() != fingerprint {
		return nil, cfg.wrongSecret(fingerprint)
	}
	return space, nil
}

// CheckSecret fails with ErrWrongSecret if db has a ledger that was created with another secret or another value of
// Permute. The tables may have any version of the schema, so that a program with a wrong setting can stop before it
// migrates the database. CheckSecret changes nothing.
func CheckSecret(ctx context.Context, db *sql.DB, cfg Config) error {
	space, _, err := cfg.space()
	if err != nil {
		return err
	}
	var kept []byte
	var fingerprint string
	err = db.QueryRowContext(ctx, `SELECT secret, fingerprint FROM kgs_ledger WHERE id = 1`).Scan(&kept, &fingerprint)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ledger: check the secret: %w", err)
	}
	_, err = cfg.recognize(space, kept, fingerprint)
	return err
}

// space returns the code space that cfg requests. If cfg permutes codes but has no secret, space makes a new secret and
// returns it as made.
func (cfg Config) space() (space *codespace.Space, made sql.Null[[]byte], err error) {
	switch {
	case !cfg.Permute:
		return codespace.Plain(), made, nil
	case cfg.Secret == nil:
		made = sql.Null[[]byte]{V: make([]byte, 16), Valid: true}
		rand.Read(made.V) // never returns an error
		space, err = codespace.New(made.V)
	default:
		space, err = codespace.New(cfg.Secret)
	}
	return space, made, err
}

func (cfg Config) wrongSecret(fingerprint string) error {
	advice := "KGS_SECRET (--kgs-secret): the secret is not the secret of this ledger; set the secret that the ledger was created with"
	switch {
	case !cfg.Permute:
		advice = "KGS_PERMUTE (--kgs-permute): the value is \"false\", but this ledger permutes its codes; set it to \"true\""
	case fingerprint == codespace.Plain().Fingerprint():
		advice = "KGS_PERMUTE (--kgs-permute): the value is \"true\", but this ledger keeps codes in counter order; set it to \"false\""
	case cfg.Secret == nil:
		advice = "KGS_SECRET (--kgs-secret): no secret is set; set the secret that the ledger was created with"
	}
	return fmt.Errorf("%w: %s", ErrWrongSecret, advice)
}
