// Package pgstore keeps links in PostgreSQL, or in an engine with the same protocol.
//
// Most methods send statements or pipelines of statements, and the server executes each statement or pipeline in
// a transaction of its own. The other methods begin a transaction explicitly. If a method is interrupted, the
// driver closes the connection, and the server rolls the transaction back, so no transaction remains open.
//
// A [Store] reads from the server to which it writes, because a replica may lack the newest links. [Replicas] looks
// links up in replicas, and asks a Store for the links that a replica lacks.
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/shortener"
)

// Store implements [shortener.Store].
type Store struct {
	pool  *pgxpool.Pool
	order shortener.Order
	// fingerprint is the fingerprint of order. It is stored here, because its computation is slow.
	fingerprint string
	lookups     lookups
	clustered   bool // whether the server is a node of a Citus cluster
	// suspicious is the number of further Inserts that will use ON CONFLICT (see Insert).
	suspicious atomic.Int32
}

var _ shortener.Store = (*Store)(nil)

// New returns a store that uses the tables in the search path of pool. The links in these tables
// must have the given order. The caller closes pool.
func New(pool *pgxpool.Pool, order shortener.Order) *Store {
	s := &Store{pool: pool, order: order, fingerprint: order.Fingerprint()}
	s.lookups.find = s.find
	return s
}

// Writers implements [shortener.Store]. The result is the maximum number of connections, each of which can write.
func (s *Store) Writers() int { return int(s.pool.Config().MaxConns) }

// suspicion is the number of Inserts that use ON CONFLICT at once after a conflict. They do not try a plain INSERT
// first.
const suspicion = 64

// Insert implements [shortener.Store]. It usually sends one pipeline, which is one transaction and contains one
// INSERT for each table. Other cases need other statements:
//
//   - If a link has an idempotency key, the transaction needs several round trips (see insertWithKeys).
//   - If the transaction waits too long for another transaction, Insert begins again with a transaction of several
//     round trips (see insertUnblocked).
//   - If a node of a Citus cluster gets only a few links without details, the pipeline contains one INSERT for each
//     link (see maxEach).
//
// A plain INSERT costs about half as much as an INSERT with ON CONFLICT, and writes a fifth less to the
// write-ahead log. But a conflict rolls the plain INSERT back, and PostgreSQL logs an error. Keys rarely
// conflict, so Insert first tries a plain INSERT. After a conflict, it tries again with ON CONFLICT, and
// the next Inserts do not try a plain INSERT (see suspicion).
func (s *Store) Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to insert links: %w: %w", shortener.ErrNotWritten, err)
	}
	defer conn.Release()
	if hasKey(links) {
		return s.transact(ctx, conn, func(tx pgx.Tx) ([]shortener.Outcome, error) { return s.insertWithKeys(ctx, tx, links) })
	}
	outcomes, err := s.insertWithoutKeys(ctx, conn, links)
	if isCodeLocked(err) && errors.Is(err, shortener.ErrNotWritten) {
		return s.transact(ctx, conn, func(tx pgx.Tx) ([]shortener.Outcome, error) { return s.insertUnblocked(ctx, tx, links, shortTimeout) })
	}
	if isLockTimeout(err) && errors.Is(err, shortener.ErrNotWritten) { // a migration may have locked a table
		return s.transact(ctx, conn, func(tx pgx.Tx) ([]shortener.Outcome, error) { return s.insertUnblocked(ctx, tx, links, noTimeout) })
	}
	return outcomes, err
}

// insertWithoutKeys inserts links whose creations have no idempotency keys.
func (s *Store) insertWithoutKeys(ctx context.Context, conn *pgxpool.Conn, links []shortener.Link) ([]shortener.Outcome, error) {
	if s.suspicious.Load() > 0 {
		s.suspicious.Add(-1)
		return s.insertSome(ctx, conn, links)
	}
	err := s.insertAll(ctx, conn, links)
	if isConflict(err) || s.clustered && isInternal(err) {
		s.suspicious.Store(suspicion)
		return s.insertSome(ctx, conn, links)
	}
	if err != nil {
		return nil, s.insertFailed(err)
	}
	return slices.Repeat([]shortener.Outcome{shortener.Inserted}, len(links)), nil
}

// insertAll inserts all links. If a code is in use, or if the database keeps its links in another order than s,
// insertAll fails and inserts no link.
func (s *Store) insertAll(ctx context.Context, conn *pgxpool.Conn, links []shortener.Link) error {
	tables := s.columnsOf(links)
	if s.clustered && len(links) <= maxEach && !slices.ContainsFunc(tables, func(c *columns) bool { return c.details != nil }) {
		return s.insertEach(ctx, conn, tables)
	}
	var batch pgx.Batch
	for _, c := range tables {
		c.queue(&batch, "").Exec(requireRows)
	}
	return s.send(ctx, conn, &batch)
}

// send executes a pipeline of statements that insert links, in one transaction. If db is not a transaction, send
// adds lockTimeout and, on a node of a Citus cluster, BEGIN and COMMIT.
func (s *Store) send(ctx context.Context, db connection, batch *pgx.Batch) error {
	if _, begun := db.(pgx.Tx); begun {
		return db.SendBatch(ctx, batch).Close()
	}
	batch.QueuedQueries = slices.Insert(batch.QueuedQueries, 0, &pgx.QueuedQuery{SQL: lockTimeout})
	if !s.clustered {
		return db.SendBatch(ctx, batch).Close()
	}
	batch.QueuedQueries = slices.Concat([]*pgx.QueuedQuery{{SQL: `BEGIN`}}, batch.QueuedQueries, []*pgx.QueuedQuery{{SQL: `COMMIT`}})
	err := db.SendBatch(ctx, batch).Close()
	if reply := (*pgconn.PgError)(nil); errors.As(err, &reply) {
		rollback := &pgx.Batch{}
		rollback.Queue(`ROLLBACK`)
		_ = db.SendBatch(ctx, rollback).Close() // if it fails, the pool closes the connection
	}
	return err
}

// requireRows returns ErrOtherOrder if an INSERT inserted no row. The only possible reason is that the
// condition sameOrder of the INSERT is false, because a conflict makes the INSERT fail.
func requireRows(tag pgconn.CommandTag) error {
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrOtherOrder)
	}
	return nil
}

// checkOrder returns ErrOtherOrder if the database keeps its links in another order than s.
func (s *Store) checkOrder(ctx context.Context, db connection) (err error) {
	var batch pgx.Batch
	same := true
	batch.Queue(`SELECT `+sameOrder, s.fingerprint).QueryRow(func(row pgx.Row) error { return row.Scan(&same) })
	if err = db.SendBatch(ctx, &batch).Close(); err == nil && !same {
		err = shortener.ErrOtherOrder
	}
	return err
}

// insertSome inserts the links whose codes are not in use.
func (s *Store) insertSome(ctx context.Context, conn *pgxpool.Conn, links []shortener.Link) ([]shortener.Outcome, error) {
	inserted, err := s.insertNew(ctx, conn, links)
	if err != nil {
		return nil, s.insertFailed(err)
	}
	if len(inserted) < len(links) {
		s.suspicious.Store(suspicion)
	}
	// The rows are durable, so an error from here on must not wrap ErrNotWritten.
	return s.outcomes(ctx, conn, links, inserted, nil)
}

// outcomes returns the outcomes of links. The parameter inserted contains the codes of the links that were
// inserted. The map busy contains the codes whose outcome is CodeBusy.
func (s *Store) outcomes(
	ctx context.Context, db connection, links []shortener.Link, inserted []string, busy map[string]bool,
) ([]shortener.Outcome, error) {
	if len(inserted) == len(links) {
		return slices.Repeat([]shortener.Outcome{shortener.Inserted}, len(links)), nil
	}
	if err := s.checkOrder(ctx, db); err != nil {
		return nil, fmt.Errorf("look up the links in conflict: %w", err)
	}
	existing := slices.DeleteFunc(without(links, inserted), func(code string) bool { return busy[code] })
	stored, err := s.rows(ctx, db, existing)
	if err != nil {
		return nil, fmt.Errorf("look up the links in conflict: %w", err)
	}
	for _, code := range existing {
		row, ok := stored[code]
		if !ok {
			return nil, fmt.Errorf("%w: code %q", errRowVanished, code)
		}
		if err := checkCode(code, row.link); err != nil {
			return nil, err
		}
	}
	if len(existing) > 0 {
		if err := confirm(ctx, db); err != nil {
			return nil, fmt.Errorf("wait for the commit of existing links: %w", err)
		}
	}
	return outcomesOf(links, stored, busy), nil
}

// confirm writes a message to the write-ahead log, so that the commit of its transaction waits for a synchronous standby.
// Without confirm, a caller could treat a row as durable although the standby lacks the row: if a commit stops waiting for
// the standby, PostgreSQL keeps the inserted rows, and every transaction sees them. (PostgreSQL manual, 27.2.8.)
func confirm(ctx context.Context, db connection) error {
	var batch pgx.Batch
	batch.Queue(`SELECT pg_logical_emit_message(true, 'keypool', '')`)
	return db.SendBatch(ctx, &batch).Close()
}

// errRowVanished reports that a row prevented an insert, but a later statement did not find the row. This
// happens if another server became the primary between the two statements.
var errRowVanished = errors.New("the row in conflict with a link does not exist")

// insertNew inserts the links whose codes are not in use, and returns the codes of the new rows. The parameter before
// contains statements that insertNew executes first. If it contains statements, insertNew removes their lock timeout at
// the end.
func (s *Store) insertNew(ctx context.Context, db connection, links []shortener.Link, before ...string) (inserted []string, err error) {
	inserted = make([]string, 0, len(links))
	collect := func(rows pgx.Rows) error {
		for rows.Next() {
			var code string
			if err := rows.Scan(&code); err != nil {
				return err
			}
			inserted = append(inserted, code)
		}
		return rows.Err()
	}
	var batch pgx.Batch
	for _, statement := range before {
		batch.Queue(statement)
	}
	for _, c := range s.columnsOf(links) {
		c.queue(&batch, returningNew).Query(collect)
	}
	if len(before) > 0 {
		batch.Queue(defaultTimeout)
	}
	return inserted, s.send(ctx, db, &batch)
}

// without returns the codes of links, except the codes in the parameter inserted.
func without(links []shortener.Link, inserted []string) (existing []string) {
	isNew := make(map[string]bool, len(inserted))
	for _, code := range inserted {
		isNew[code] = true
	}
	for i := range links {
		if code := links[i].Code; !isNew[code] {
			existing = append(existing, code)
		}
	}
	return existing
}

// outcomesOf returns the outcomes of links. The keys of the map stored are codes. Its values are the rows that existed
// before the INSERT. The map busy contains the codes whose outcome is CodeBusy.
func outcomesOf(links []shortener.Link, stored map[string]result, busy map[string]bool) []shortener.Outcome {
	outcomes := make([]shortener.Outcome, len(links))
	inserted := make(map[string]bool, len(links))
	for i, l := range links {
		row := stored[l.Code].link
		switch {
		case busy[l.Code]:
			outcomes[i] = shortener.CodeBusy
		case stored[l.Code].err != nil: // the row cannot be decoded, so it differs from every link
			outcomes[i] = shortener.Conflict
		case row.Code != "":
			outcomes[i] = shortener.OutcomeOfExisting(links, outcomes, i, row)
		case inserted[l.Code]:
			outcomes[i] = shortener.Conflict
		default:
			outcomes[i], inserted[l.Code] = shortener.Inserted, true
		}
	}
	return outcomes
}

const linkColumns = `code, url, source, created_at, expires_at, deleted_at, details::text`

// connection is a connection, a transaction or a pool of connections.
type connection interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// rows returns the rows of codes, by code. A code without a row is absent. If a row cannot be decoded, only the result of
// its code has an error, because other look-ups may share the statement. If the links are stored in another
// order, the row that is found for a code may have another code. The caller detects such a row with
// checkCode.
func (s *Store) rows(ctx context.Context, db connection, codes []string) (map[string]result, error) {
	byRank, byCode := make(map[int64]string, len(codes)), make(map[string]string)
	for _, code := range codes {
		if rank, ok := s.order.Rank(code); ok {
			byRank[rank] = code
		} else {
			byCode[code] = code
		}
	}
	found := make(map[string]result, len(codes))
	var batch pgx.Batch
	if s.clustered { // statements about single rows cost a node less than one statement about several rows
		for rank := range byRank {
			batch.Queue(`SELECT rank, `+linkColumns+` FROM ranked_links WHERE rank = $1`, rank).Query(collect(found, byRank))
		}
		for code := range byCode {
			batch.Queue(`SELECT code, `+linkColumns+` FROM unranked_links WHERE code = $1`, code).Query(collect(found, byCode))
		}
		return found, db.SendBatch(ctx, &batch).Close()
	}
	if len(byRank) > 0 {
		batch.Queue(`SELECT rank, `+linkColumns+` FROM ranked_links WHERE rank = ANY($1::bigint[])`, slices.Collect(maps.Keys(byRank))).Query(collect(found, byRank))
	}
	if len(byCode) > 0 {
		batch.Queue(`SELECT code, `+linkColumns+` FROM unranked_links WHERE code = ANY($1::text[])`, slices.Collect(maps.Keys(byCode))).Query(collect(found, byCode))
	}
	return found, db.SendBatch(ctx, &batch).Close()
}

// collect returns a function that adds each row to found, under the code wanted[key]. The key of a row is its first
// column.
func collect[K comparable](found map[string]result, wanted map[K]string) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var key K
		return forEachLink(rows, &key, func(link shortener.Link, err error) error {
			found[wanted[key]] = result{link, err}
			return nil
		})
	}
}

// forEachLink calls do(link, err) for each row, where err is the error of decoding the row. It stops when do returns an
// error. The first column of a row is its key, and the others are linkColumns.
func forEachLink(rows pgx.Rows, key any, do func(shortener.Link, error) error) error {
	var row linkRow
	_, err := pgx.ForEachRow(rows, append([]any{key}, row.columns()...), func() error { return do(row.link()) })
	return err
}

// linkRow contains the columns linkColumns of a row.
type linkRow struct {
	code, url, source         string
	created, expires, deleted pgtype.Timestamptz
	details                   *string
}

func (r *linkRow) columns() []any {
	return []any{&r.code, &r.url, &r.source, &r.created, &r.expires, &r.deleted, &r.details}
}

func (r *linkRow) link() (shortener.Link, error) {
	details, err := shortener.ParseDetails(r.details)
	return shortener.Link{
		Code: r.code, URL: r.url, Source: r.source, CreatedAt: r.created.Time.UTC(),
		ExpiresAt: r.expires.Time.UTC(), DeletedAt: r.deleted.Time.UTC(), // the zero time for NULL
		Details: details,
	}, err
}

// checkCode returns ErrOtherOrder if the row that was found for code has another code.
func checkCode(code string, row shortener.Link) error {
	if row.Code != code {
		return fmt.Errorf("%w: the row of %q has the code %q", shortener.ErrOtherOrder, code, row.Code)
	}
	return nil
}

// Lookup implements [shortener.Store]. Concurrent look-ups share a statement (see the type lookups).
func (s *Store) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	link, err := s.lookups.do(ctx, code)
	if err == nil && link.Code == "" {
		return shortener.Link{}, shortener.ErrNotFound
	}
	if err == nil {
		err = checkCode(code, link)
	}
	if err != nil {
		return shortener.Link{}, fmt.Errorf("look up a link: %w", err)
	}
	return link, nil
}

func (s *Store) find(ctx context.Context, codes []string) (map[string]result, error) {
	return s.rows(ctx, s.pool, codes)
}

// pageRows is the number of rows that All reads at a time. A single long read would prevent the server from
// removing dead rows.
const pageRows = 10_000

// All implements [shortener.Store]. It reads the rows page by page in the order of the primary key
// of each table. Rows are never removed, so it yields every row that existed at the start.
func (s *Store) All(ctx context.Context) iter.Seq2[shortener.Row, error] {
	return func(yield func(shortener.Row, error) bool) {
		for _, rows := range []iter.Seq2[shortener.Row, error]{
			pages(ctx, s.pool, `SELECT rank, code, source, rank FROM ranked_links WHERE rank > $1 ORDER BY rank LIMIT $2`, int64(math.MinInt64)),
			pages(ctx, s.pool, `SELECT code, code, source, $3::bigint FROM unranked_links WHERE code > $1 ORDER BY code LIMIT $2`, "", shortener.NoRank),
		} {
			for row, err := range rows {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// pages yields the rows that query selects, page by page. The parameters of query are the key after which
// the page begins, the number of rows, and the values in more. The columns of the result of query are the
// key, the code, the source and the rank.
func pages[K any](ctx context.Context, pool *pgxpool.Pool, query string, after K, more ...any) iter.Seq2[shortener.Row, error] {
	return shortener.Pages(ctx, pageRows, func(ctx context.Context) ([]shortener.Row, error) {
		rows, err := pool.Query(ctx, query, append([]any{after, pageRows}, more...)...)
		if err != nil {
			return nil, err
		}
		var row shortener.Row
		page := make([]shortener.Row, 0, pageRows)
		_, err = pgx.ForEachRow(rows, []any{&after, &row.Code, &row.Source, &row.Rank}, func() error {
			page = append(page, row)
			return nil
		})
		return page, err
	})
}

// Ping implements [shortener.Store].
func (s *Store) Ping(ctx context.Context) error {
	var readOnly string
	err := s.pool.QueryRow(ctx, `SELECT current_setting('transaction_read_only')`).Scan(&readOnly)
	if err == nil && readOnly == "on" {
		s.pool.Reset()
		err = errReadOnly
	}
	if err != nil {
		return fmt.Errorf("ping the link store: %w", err)
	}
	return nil
}
