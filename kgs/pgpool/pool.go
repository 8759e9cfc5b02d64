// Package pgpool is a pool of random codes in two PostgreSQL tables. The table available_keys holds
// the codes that can be taken. The table used_keys records the codes that were handed out. The pool
// takes no numbers from the ledger. Package kgs defines batches, holders, epochs and settling.
//
// Invariant: a code in used_keys is handed out again only after its holder has returned it unused.
// The unique constraints of both tables enforce this.
package pgpool

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/kgs"
)

// maxKeys is the largest number of keys that one statement moves. A statement with more keys would take longer than a
// server waits for its next batch.
const maxKeys = 10_000

// Config selects how a Pool takes keys.
type Config struct {
	Holder  string // name of this process; it must be a holder in the ledger while the process runs
	Reserve bool   // if true, Take marks keys as reserved, and Settle moves all of them except the unused keys to used_keys
}

// Pool is a pool of codes that a worker drew at random in advance. The codes wait in the table
// available_keys, and the table used_keys records which codes were handed out. Both tables are in
// the database of the links.
//
// Without Config.Reserve, the following rules ensure that the pool gives out a key again only after its holder has
// returned it unused:
//
//   - Each key is unique in available_keys and unique in used_keys. The constraints of the tables
//     enforce this.
//   - A statement that takes a row of available_keys locks the row first. Other statements skip a
//     locked row, or find that the row was deleted.
//   - Take deletes the row and inserts the key into used_keys in one statement. If used_keys
//     already has the key, because a worker drew the key a second time, Take drops the key.
//   - A key leaves used_keys only when its holder returns it unused. The same statement makes the
//     key available again under a new id, which is larger than all earlier ids. A holder can return
//     only a key whose id is at most the last id of its batch. So the holder cannot return a key
//     twice, and it cannot return a key that another holder has taken since.
//
// With Config.Reserve, Take marks the row as reserved. Settle moves the key to used_keys, or makes it
// available again if it is unused. While the row is reserved, no other process can take the key, and no
// worker can insert it again. Take drops a key that it finds in used_keys. The reserved keys of a dead
// holder become available again, at the earliest 10 minutes after the Take. Two kinds of conflicts are
// then possible. The dead holder may have used some of these keys already. And if the holder was
// only frozen, it may later use a key that another holder has used since. In both cases the primary
// key of the links rejects the second use, and the server settles the key as used.
//
// Each statement is a separate transaction. So a frozen process holds no lock, and a crash leaves
// no statement half done. Methods return at the latest when ctx ends. Any number of goroutines and
// processes may call them concurrently, even if only some of the processes set Config.Reserve.
//
// A database whose files are replaced by older files has the same history (see ledger.PostgresHistory), but
// the keys in its pool may have been handed out. Each process therefore remembers the id of the next
// transaction. If the id has decreased, Take takes no key, and Status closes the pool until a worker empties
// it. Several processes may close the pool one after the other. A process does not detect the replacement if
// it started later, or if the database reaches the remembered id again before the process calls Take or Status.
type Pool struct {
	db          *pgxpool.Pool
	cfg         Config
	searchStart searchStart

	transactions atomic.Int64 // id of the next transaction when Status last read it
	closing      sync.Mutex   // held while Status closes the pool
}

var _ kgs.Supply = (*Pool)(nil)

// New returns a pool that uses the tables in the search path of db. It does not access the
// database. The caller closes db.
func New(db *pgxpool.Pool, cfg Config) *Pool {
	return &Pool{db: db, cfg: cfg}
}

// Take takes up to n keys, but at most 10,000. It fails with [kgs.ErrEmpty] when no key is available,
// and with [kgs.ErrNoEpoch] when the pool is not open.
//
// If the process crashes after Take, or the reply is lost, the effect depends on Config.Reserve. With Config.Reserve,
// the keys become available again after the holder has died, as [Pool] describes. Without Config.Reserve, the keys stay
// in used_keys, and the audit counts them as used without a link.
func (p *Pool) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	for {
		from := p.searchStart.load()
		b, err := p.take(ctx, from, min(n, maxKeys))
		switch {
		case err != nil:
			return nil, fmt.Errorf("take keys: %w", err)
		case len(b.Codes) > 0:
			return b, nil
		case b.ID > 0: // all keys in these rows were used before: try the next rows
		case from > 0:
			p.searchStart.forget()
		default:
			return nil, p.whyEmpty(ctx)
		}
	}
}

// take makes one attempt to take up to n rows. It takes no row with an id below the parameter from. The id of the batch
// is the id of its last row, or 0 if there was no row.
func (p *Pool) take(ctx context.Context, from int64, n int) (*kgs.Batch, error) {
	query, args := takeByDelete, []any{from, n, p.transactions.Load()}
	if p.cfg.Reserve {
		query, args = takeByReserve, append(args, p.cfg.Holder)
	}
	b := &kgs.Batch{Source: kgs.SourcePostgresPool, Codes: make([]string, 0, n)}
	var code string // empty if the key was dropped
	rows, err := p.db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	_, err = pgx.ForEachRow(rows, []any{&b.ID, &code}, func() error {
		if code != "" {
			b.Codes = append(b.Codes, code)
		}
		return nil
	})
	if b.ID > 0 {
		p.searchStart.store(b.ID)
	}
	return b, err
}

func (p *Pool) whyEmpty(ctx context.Context) error {
	if _, err := p.Status(ctx); err != nil {
		return err
	}
	return kgs.ErrEmpty
}

// Settle makes the unused keys of b available again. The other keys are never handed out again. If
// this holder was declared dead, another holder may have taken keys of b in the meantime. Settle does
// not make these keys available. If Settle fails, the caller may repeat it.
func (p *Pool) Settle(ctx context.Context, b *kgs.Batch, unused, _ []string) error {
	handBack := handBackUsed
	if p.cfg.Reserve {
		handBack = handBackReserved
		if err := p.settle(ctx, useReserved, b, allBut(b.Codes, unused)); err != nil {
			return err
		}
	}
	return p.settle(ctx, handBack, b, unused)
}

func (p *Pool) settle(ctx context.Context, query string, b *kgs.Batch, codes []string) error {
	for chunk := range slices.Chunk(codes, maxKeys) {
		if _, err := p.db.Exec(ctx, query, chunk, b.ID); err != nil {
			return fmt.Errorf("settle keys: %w", err)
		}
	}
	return nil
}

// allBut returns the codes in the slice all that are not in the slice some. It keeps their order.
func allBut(all, some []string) []string {
	left := make(map[string]bool, len(some))
	for _, v := range some {
		left[v] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool { return left[v] })
}

// searchStartLife is the longest time for which Take may overlook a free row.
const searchStartLife = time.Minute

// searchStart is the id at which the search for free rows begins. The rows with lower ids are reserved or
// deleted. A deleted row stays in the table until a vacuum. If each Take read these rows again,
// Take would become slower over time. The id is only a hint. A Take skips the rows that another
// Take has locked, and these rows become free again if the other Take fails. Therefore the id is
// reset to 0 after searchStartLife.
type searchStart struct {
	mu    sync.Mutex
	id    int64
	since time.Time // time at which id was last reset
}

func (s *searchStart) load() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.since) > searchStartLife {
		s.id, s.since = 0, time.Now()
	}
	return s.id
}

func (s *searchStart) store(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = id
}

func (s *searchStart) forget() { s.store(0) }

// Status measures the pool without counting its rows. Ids are assigned in sequence, and Take takes
// rows in the order of their ids. So the size of the pool is the number of ids from its first free
// row to its last row. The size is slightly too large: it includes rows that a running Take has
// locked, and ids of codes that two workers drew at the same moment. Status reads both ids from the
// table, so it detects a table that was emptied by hand.
//
// Status fails with [kgs.ErrNoEpoch] if the pool is new, or if it was closed. It fails with the same
// error if the database returned to an older state, or a standby was promoted, after the pool was
// filled. The keys in the pool may then already have been handed out. If the id of the next
// transaction is lower than the id that this process remembers, Status closes the pool for all
// processes.
func (p *Pool) Status(ctx context.Context) (kgs.PoolStatus, error) {
	from := p.searchStart.load()
	known := p.transactions.Load()
	var last, transactions int64
	var present bool
	var first, back *int64
	if err := p.db.QueryRow(ctx, poolStatus, from).Scan(&last, &present, &transactions, &first, &back); err != nil {
		return kgs.PoolStatus{}, fmt.Errorf("status of the pool: %w", err)
	}
	if transactions < known {
		return kgs.PoolStatus{}, p.closeOlder(ctx, known, transactions)
	}
	p.raise(transactions)
	if first == nil && from > 0 {
		p.searchStart.forget()
		return p.Status(ctx)
	}
	s := kgs.PoolStatus{Pushed: last, Taken: last}
	if first != nil {
		s.Keys, s.Taken = *back-*first+1, *first-1
		p.searchStart.store(*first)
	}
	if !present {
		return s, kgs.ErrNoEpoch
	}
	return s, nil
}

// raise records a transaction id. If another call of Status has recorded a higher id, raise changes nothing.
func (p *Pool) raise(transactions int64) {
	for {
		known := p.transactions.Load()
		if known >= transactions || p.transactions.CompareAndSwap(known, transactions) {
			return
		}
	}
}

// Restored records that the database was restored from a backup. Servers may have taken the keys of the pool after the
// backup, so every Take of every process fails until a worker has emptied the pool.
func (p *Pool) Restored(ctx context.Context) error {
	return p.close(ctx)
}

func (p *Pool) close(ctx context.Context) error {
	if _, err := p.db.Exec(ctx, closePool); err != nil {
		return fmt.Errorf("close the pool: %w", err)
	}
	return nil
}

// closeOlder closes a pool whose database returned to an older state. The id of the next transaction has decreased from
// the parameter known to the parameter now. closeOlder always returns an error.
func (p *Pool) closeOlder(ctx context.Context, known, now int64) error {
	p.closing.Lock()
	defer p.closing.Unlock()
	if p.transactions.Load() < known {
		return fmt.Errorf("%w: another call has just closed the pool", kgs.ErrNoEpoch)
	}
	if err := p.close(ctx); err != nil {
		return err
	}
	p.transactions.CompareAndSwap(known, now)
	return fmt.Errorf("%w: the database returned to an older state, from transaction %d to transaction %d", kgs.ErrNoEpoch, known, now)
}
