// Package sqlitestore keeps links in an embedded SQLite database.
//
// Times are stored as microseconds since 1970. The database has one connection for writing and several connections
// for reading (package keypool/internal/sqlite). So Inserts run one after the other, and readers do not wait for
// Inserts. Lists have separate connections, so look-ups do not wait for lists.
package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"keypool/internal/sqlite"
	"keypool/shortener"
)

// Store implements [shortener.Store].
//
// If ctx ends while a method waits for a connection, the method returns. If ctx ends during a statement of Insert or
// Lookup, the statement continues as long as the disk needs. To interrupt statements, the driver would need a
// goroutine per statement. While another process holds the write lock, an Insert takes up to five seconds longer.
type Store struct {
	db               *sqlite.DB
	order            shortener.Order
	turns            chan struct{} // has an element for each running Lookup; its capacity is the number of connections in db.Read
	ranked, unranked *table
	record           statement // adds a row to creations, unless the order on record has another fingerprint
	otherOrder       statement // reads whether the order on record has another fingerprint than the argument
	fingerprint      string    // fingerprint of order
}

var _ shortener.Store = (*Store)(nil)

// hasOtherOrder is the condition that the order on record has another fingerprint than the argument.
const hasOtherOrder = `EXISTS (SELECT 1 FROM link_order WHERE fingerprint <> ?)`

// New returns a store that uses db. The links in db must have the given order. The caller closes
// db.
func New(db *sqlite.DB, order shortener.Order) *Store {
	return &Store{
		db: db, order: order, turns: make(chan struct{}, db.Read.Stats().MaxOpenConnections),
		ranked: rankedLinks(), unranked: unrankedLinks(),
		record:      statement{query: `INSERT INTO creations (codes) SELECT ? WHERE NOT ` + hasOtherOrder},
		otherOrder:  statement{query: `SELECT ` + hasOtherOrder},
		fingerprint: order.Fingerprint(),
	}
}

// Writers implements [shortener.Store]. SQLite has one writer.
func (*Store) Writers() int { return 1 }

// Insert implements [shortener.Store].
func (s *Store) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	return s.InsertWith(ctx, links, nil)
}

// InsertWith is like Insert, but executes one more statement in the same transaction. Before the commit, it calls
// statementFor with the outcomes. This call returns the additional statement and its argument, or "" for no statement. If
// the call or the statement fails, InsertWith writes nothing. statementFor may be nil.
func (s *Store) InsertWith(
	ctx context.Context, links []shortener.Link, statementFor func([]shortener.Outcome) (statement string, argument any, err error),
) ([]shortener.Outcome, error) {
	// The preparation of the statements needs the only connection for writing. So prepare them before this transaction
	// takes the connection.
	if err := s.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare to insert links: %w: %w", shortener.ErrNotWritten, err)
	}
	conn, err := s.db.Write.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for the connection to insert links: %w: %w", shortener.ErrNotWritten, err)
	}
	defer func() { _ = conn.Close() }() // only returns the connection to its pool
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, notWritten(err)
	}
	outcomes, err := s.insertIn(ctx, tx, links)
	if err == nil && statementFor != nil {
		err = execute(ctx, tx, outcomes, statementFor)
	}
	if err != nil {
		_ = tx.Rollback() // fails if SQLite has rolled back by itself
		return nil, notWritten(err)
	}
	if err := tx.Commit(); err != nil {
		return nil, commitFailed(err)
	}
	return outcomes, nil
}

// execute executes the statement that statementFor returns.
func execute(ctx context.Context, tx *sql.Tx, outcomes []shortener.Outcome, statementFor func([]shortener.Outcome) (statement string, argument any, err error)) error {
	statement, argument, err := statementFor(outcomes)
	if err == nil && statement != "" {
		_, err = tx.ExecContext(ctx, statement, argument)
	}
	return err
}

// prepare prepares the statements of Insert.
func (s *Store) prepare(ctx context.Context) (err error) {
	for _, statement := range []*statement{&s.ranked.insert, &s.unranked.insert, &s.record, &s.otherOrder} {
		err = errors.Join(err, statement.prepare(ctx, s.db.Write))
	}
	return err
}

// checkOrder returns ErrOtherOrder if the database keeps its links in another order than s.
func (s *Store) checkOrder(ctx context.Context, tx *sql.Tx) (err error) {
	var other bool
	check := tx.StmtContext(ctx, s.otherOrder.stmt.Load()) //nolint:sqlclosecheck // ends with the transaction
	if err = check.QueryRowContext(ctx, s.fingerprint).Scan(&other); err == nil && other {
		err = shortener.ErrOtherOrder
	}
	return err
}

func (s *Store) insertIn(ctx context.Context, tx *sql.Tx, links []shortener.Link) (outcomes []shortener.Outcome, err error) {
	ranked := tx.StmtContext(ctx, s.ranked.insert.stmt.Load())     //nolint:sqlclosecheck // ends with the transaction
	unranked := tx.StmtContext(ctx, s.unranked.insert.stmt.Load()) //nolint:sqlclosecheck // ends with the transaction
	outcomes = make([]shortener.Outcome, len(links))
	var columns [7]any
	for i := range links {
		l := &links[i]
		if l.IdempotencyKey != nil {
			if outcomes[i], err = s.insertKey(ctx, tx, l); err != nil {
				return nil, err
			}
			if outcomes[i] != 0 {
				continue
			}
		}
		table, key := s.place(l.Code)
		columns = [...]any{key, l.Code, l.URL, l.Source, l.CreatedAt.UnixMicro(), micros(l.ExpiresAt), detailsText(l.Details)}
		insert, values := ranked, columns[:]
		if table == s.unranked { // the key is the code
			insert, values = unranked, columns[1:]
		}
		result, err := insert.ExecContext(ctx, values...)
		if err != nil {
			return nil, err
		}
		inserted, err := result.RowsAffected()
		if err != nil {
			return nil, err
		}
		if inserted == 1 {
			outcomes[i] = shortener.Inserted
			if err := table.markDeleted(ctx, tx, key, l.DeletedAt); err != nil {
				return nil, err
			}
			continue
		}
		if l.IdempotencyKey != nil { // the key is new, so even an equal row belongs to another creation
			outcomes[i], err = shortener.Conflict, release(ctx, tx, l.IdempotencyKey)
		} else {
			outcomes[i], err = outcomeOfRow(tx.QueryRowContext(ctx, table.lookup.query, key), links, outcomes, i)
		}
		if err != nil {
			return nil, err
		}
	}
	return outcomes, s.recordCreations(ctx, tx, links, outcomes)
}

// outcomeOfRow returns the outcome of links[i], whose code already has the given row.
func outcomeOfRow(row *sql.Row, links []shortener.Link, outcomes []shortener.Outcome, i int) (shortener.Outcome, error) {
	stored, err := scanCode(row, links[i].Code)
	switch {
	case errors.Is(err, shortener.ErrDetails): // the row differs from every link
		return shortener.Conflict, nil
	case err != nil:
		return 0, err
	}
	return shortener.OutcomeOfExisting(links, outcomes, i, stored), nil
}

// Lookup implements [shortener.Store].
func (s *Store) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return shortener.Link{}, fmt.Errorf("wait for a connection to look up a link: %w", ctx.Err())
	}
	table, key := s.place(code)
	if err := table.lookup.prepare(ctx, s.db.Read); err != nil {
		return shortener.Link{}, fmt.Errorf("look up a link: %w", err)
	}
	lookup := table.lookup.stmt.Load() //nolint:sqlclosecheck // stays open as long as the store
	link, err := scanCode(lookup.QueryRowContext(context.WithoutCancel(ctx), key), code)
	if errors.Is(err, sql.ErrNoRows) {
		return shortener.Link{}, shortener.ErrNotFound
	}
	if err != nil {
		return shortener.Link{}, fmt.Errorf("look up a link: %w", err)
	}
	return link, nil
}

// scanCode reads the row that the statement lookup returned for code. It fails with ErrOtherOrder if the row has
// another code.
func scanCode(row *sql.Row, code string) (shortener.Link, error) {
	link, err := scanLink(row)
	if err == nil && link.Code != code {
		return shortener.Link{}, fmt.Errorf("%w: the row of %q has the code %q", shortener.ErrOtherOrder, code, link.Code)
	}
	link.Code = code // equals the scanned code, whose memory can now be freed
	return link, err
}

// scanLink reads a row with the columns linkColumns.
func scanLink(row interface{ Scan(values ...any) error }) (link shortener.Link, err error) {
	var created int64
	var expires, deleted sql.NullInt64
	var details *string
	if err := row.Scan(&link.Code, &link.URL, &link.Source, &created, &expires, &deleted, &details); err != nil {
		return shortener.Link{}, err
	}
	link.CreatedAt = time.UnixMicro(created).UTC()
	if expires.Valid {
		link.ExpiresAt = time.UnixMicro(expires.Int64).UTC()
	}
	if deleted.Valid {
		link.DeletedAt = time.UnixMicro(deleted.Int64).UTC()
	}
	link.Details, err = shortener.ParseDetails(details)
	return link, err
}

// pageRows is the number of rows that All reads at a time. A single long read would block the checkpoint of the
// write-ahead log, and the log would grow without bound.
const pageRows = 4096

// All implements [shortener.Store]. It reads the rows page by page in the order of the primary key
// of each table. Rows are never removed, so it yields every row that existed at the start.
func (s *Store) All(ctx context.Context) iter.Seq2[shortener.Row, error] {
	return func(yield func(shortener.Row, error) bool) {
		for _, t := range []*table{s.ranked, s.unranked} {
			for row, err := range t.all(ctx, s.db.Scan) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// Ping implements [shortener.Store].
func (s *Store) Ping(ctx context.Context) error {
	err := s.db.Ping(ctx)
	if err != nil {
		return fmt.Errorf("ping the link store: %w", err)
	}
	return nil
}

// detailsText returns the details as a string, or nil (NULL). It does not return a *string, for which the driver would need
// reflection.
func detailsText(d *shortener.Details) any {
	if d == nil {
		return nil
	}
	return *d.Text()
}

// micros returns t in microseconds since 1970, or nil (NULL) for the zero time.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}
