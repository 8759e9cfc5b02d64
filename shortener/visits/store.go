package visits

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Store keeps the counts of visits in the database. Its methods may be called concurrently, and by several
// processes. Methods that write block until the database engine answers or ctx ends. Methods that only read
// block until the engine answers, or fail after the time limit of each query. The end of ctx does not
// interrupt these queries. Totals is the exception: it only reads, but it has no time limit of its own and
// fails when ctx ends.
type Store struct {
	read, write *sql.DB
	engine      engine
	limit       time.Duration // time limit of one query whose result a person waits for
}

// engine holds the SQL and the properties that differ between database engines.
type engine struct {
	begin       string // statement that limits how long a suspended process can hold a transaction; "" if the engine has no such limit
	elements    string // SQL expression that returns the elements of the JSON array $1 as rows; the column value contains the element
	lock        string // statement that takes a lock until the end of the transaction; one transaction at a time has the lock; "" if the engine has one writer
	clock       string // query for the time of the database; "" if the database has no clock of its own
	partFacets  int    // see Store.PartFacets
	choosesScan bool   // whether the engine itself decides, by the size of a range, between an index and a scan of the table
}

var _ Applier = Store{}

// SQLite returns a store in a database that has separate connections for reading and for writing.
func SQLite(read, write *sql.DB) Store {
	return Store{read, write, engine{elements: `json_each($1)`, partFacets: 256}, readTimeout}
}

// Postgres returns a store in a PostgreSQL database.
func Postgres(db *sql.DB) Store {
	// The number of the advisory lock is an arbitrary constant.
	return Store{db, db, engine{begin: `SET LOCAL idle_in_transaction_session_timeout = '3s'`,
		elements: `json_array_elements($1::json)`, lock: `SELECT pg_advisory_xact_lock(7145602938871)`, clock: `SELECT now()`, partFacets: partRows, choosesScan: true}, readTimeout}
}

// PartFacets returns the maximum number of facets that a part for this store should have. With SQLite, small parts are
// better, because creations wait for the transaction of a part, and a facet takes several times as long as a row.
// SQLite also needs memory for the rows of the part. With PostgreSQL, few large parts are better, because the parts of all
// servers wait for each other.
func (s Store) PartFacets() int { return s.engine.partFacets }

// exclude takes a lock until the end of the transaction. One transaction at a time has the lock, so only one
// transaction at a time executes the statements that follow. If the engine has one writer, exclude does nothing.
func (s Store) exclude(ctx context.Context, tx *sql.Tx) error {
	if s.engine.lock == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, s.engine.lock)
	return err
}

// Register implements [Applier].
func (s Store) Register(ctx context.Context, writer string) error {
	_, err := s.write.ExecContext(ctx, `INSERT INTO visit_writers (id, sequence, used_at) VALUES ($1, 0, $2) ON CONFLICT (id) DO NOTHING`,
		writer, time.Now().Unix())
	if err != nil {
		return fmt.Errorf("register a writer of visits: %w", err)
	}
	return nil
}

// Apply implements [Applier].
func (s Store) Apply(ctx context.Context, p Part) error {
	err := s.transact(ctx, func(tx *sql.Tx) error {
		first, err := claim(ctx, tx, p.Writer, p.Sequence)
		if err != nil || !first {
			return err
		}
		if err := s.addRows(ctx, tx, p.Rows); err != nil || len(p.Facets) == 0 {
			return err
		}
		return s.addFacets(ctx, tx, p.Facets)
	})
	if err != nil {
		return fmt.Errorf("store the counts of visits: %w", err)
	}
	return nil
}

// transact calls the function do in a transaction.
func (s Store) transact(ctx context.Context, do func(*sql.Tx) error) error {
	// At a stricter isolation level, which may be the default of the database, concurrent changes of the same rows would
	// fail. SQLite ignores the level.
	tx, err := s.write.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	if s.engine.begin != "" {
		if _, err := tx.ExecContext(ctx, s.engine.begin); err != nil {
			return err
		}
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// claim stores the number of a part. If the part was applied before, first is false. If the store does not know
// the writer or the previous part, claim fails with ErrForgotten. If the transaction of an earlier attempt is
// still in progress, claim waits until that transaction ends.
func claim(ctx context.Context, tx *sql.Tx, writer string, sequence int64) (first bool, err error) {
	result, err := tx.ExecContext(ctx, `UPDATE visit_writers SET sequence = $2, used_at = $3 WHERE id = $1 AND sequence = $2 - 1`,
		writer, sequence, time.Now().Unix())
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return n == 1, err
	}
	var stored int64
	err = tx.QueryRowContext(ctx, `SELECT sequence FROM visit_writers WHERE id = $1`, writer).Scan(&stored)
	if errors.Is(err, sql.ErrNoRows) || err == nil && stored < sequence {
		err = ErrForgotten
	}
	return false, err
}

// array returns rows as a JSON array.
func array[T any](rows []T, columns func(*T) []any) (string, error) {
	values := make([][]any, len(rows))
	for i := range rows {
		values[i] = columns(&rows[i])
	}
	text, err := json.Marshal(values)
	return string(text), err
}

// SQLite needs the condition WHERE true. Without it, SQLite would parse ON as a part of a join.
const upsertRows = `INSERT INTO visits AS v (code, hour, owner, human, bot)
	SELECT value->>0, CAST(value->>1 AS bigint), CAST(value->>2 AS bigint), CAST(value->>3 AS bigint), CAST(value->>4 AS bigint)
	FROM %s WHERE true ON CONFLICT (code, hour) DO `

func rowColumns(r *Row) []any { return []any{r.Code, r.Hour, r.Owner, r.Human, r.Bot} }

// addRows adds the counts of links and hours. No two rows may have the same link and hour.
func (s Store) addRows(ctx context.Context, tx *sql.Tx, rows []Row) error {
	text, err := array(rows, rowColumns)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(upsertRows, s.engine.elements)+
		`UPDATE SET human = v.human + excluded.human, bot = v.bot + excluded.bot`, text)
	return err
}
