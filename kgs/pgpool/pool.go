// Package pgpool is a pool of random codes in two PostgreSQL tables: available_keys holds
// codes that can be taken, and used_keys every code that was ever given out. It needs
// neither the ledger nor a space.
//
// Invariant: a code that is in used_keys is never handed out again unless its holder returned
// it unused. The unique constraints of both tables enforce this.
package pgpool

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/kgs"
)

// maxKeys is the most keys that one statement moves: more would take longer than a
// local batch waits for its refill.
const maxKeys = 10_000

// Config chooses how keys are taken.
type Config struct {
	Holder  string // of what is reserved: a process that is known to the ledger while it lives
	Reserve bool   // only mark keys when they are taken; false: move them to used_keys at once
}

// Pool is the pool of the textbook: codes that were drawn by chance ahead of time
// wait in the table available_keys, and used_keys tells which were ever given out. It
// owes nothing to the ledger and its space; the two tables and the links have one database.
//
// No key is given out twice, whatever is interleaved:
//
//   - A key is once at most in available_keys and once at most in used_keys: it is
//     unique in both. Nobody looks it up before he inserts it.
//   - Who takes a row of available_keys locks it first; others skip it, or see it gone.
//   - To take is to insert into used_keys, in the same statement that deletes the row. A
//     key that is there already, because chance drew it a second time, is dropped.
//   - A key leaves used_keys only when its holder hands it back unused, in the statement
//     that makes it available. It gets a new id then, larger than all before, and a
//     holder can hand back only what has an id of his batch: so he cannot do it twice,
//     nor take it from whoever has it next.
//
// With Reserve a key goes to used_keys when it is settled, and is dropped when it is
// found there at the time it is taken. The row is marked until then: nobody else takes
// it, nor can the key be drawn again. Keys of a holder that died come back after a while,
// the linked ones too: the links' primary key refuses those, and then they are spent. The
// same goes for one that was taken for dead and works on.
//
// Each method is one statement after the other, each a transaction of its own: a process
// that is frozen holds no lock, and one that crashes leaves no half of anything. Methods
// may be called from any goroutine, of any number of processes, in both ways at once.
type Pool struct {
	db    *pgxpool.Pool
	cfg   Config
	front front
}

var _ kgs.Supply = (*Pool)(nil)

// New makes a pool of the tables in the search path of db, which stays the
// caller's to close.
func New(db *pgxpool.Pool, cfg Config) *Pool {
	return &Pool{db: db, cfg: cfg}
}

// Take gives up to n keys, 10,000 at the most. A crash after it, or a reply that is lost,
// leaves them in used_keys without a link: a gap, which the audit counts. With Reserve
// they come back. It fails with ErrNoEpoch until a worker has opened the pool.
func (p *Pool) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	for {
		from := p.front.load()
		b, err := p.take(ctx, from, min(n, maxKeys))
		switch {
		case err != nil:
			return nil, fmt.Errorf("take keys: %w", err)
		case len(b.Codes) > 0:
			return b, nil
		case b.ID > 0: // every one was used before
		case from > 0:
			p.front.forget()
		default:
			return nil, p.whyEmpty(ctx)
		}
	}
}

// take is one try, on the rows from an id on. The batch has the id of its last row, and
// none when there was no row.
func (p *Pool) take(ctx context.Context, from int64, n int) (*kgs.Batch, error) {
	query, args := takeByDelete, []any{from, n}
	if p.cfg.Reserve {
		query, args = takeByReserve, append(args, p.cfg.Holder)
	}
	b := &kgs.Batch{Source: kgs.SourcePostgresPool, Codes: make([]string, 0, n)}
	var code string // empty for a key that was dropped
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
		p.front.store(b.ID)
	}
	return b, err
}

func (p *Pool) whyEmpty(ctx context.Context) error {
	if _, err := p.Status(ctx); err != nil {
		return err
	}
	return kgs.ErrEmpty
}

// Settle makes the unused keys available again and sees to it that the others never are.
// Keys that have come back in the meantime, and may be somebody else's, stay where they
// are. It fails half-way at the worst, and may then be repeated.
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

// allBut is all but some, in the same order.
func allBut(all, some []string) []string {
	left := make(map[string]bool, len(some))
	for _, v := range some {
		left[v] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool { return left[v] })
}
