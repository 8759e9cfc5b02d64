package shortener

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errReadOnly says that the server takes no writes: a standby, or a primary that was demoted.
var errReadOnly = errors.New("the database is read-only")

// PostgresStore keeps links in PostgreSQL, or in an engine that speaks its protocol.
// Every method is a single statement that commits by itself, so nothing is ever
// left open, and reads go where writes go: a replica might not know the newest link.
type PostgresStore struct {
	pool *pgxpool.Pool
}

var _ Store = (*PostgresStore)(nil)

// NewPostgresStore makes a store of the tables in the search path of pool, which it
// does not close.
func NewPostgresStore(pool *pgxpool.Pool) *PostgresStore {
	return &PostgresStore{pool: pool}
}

const (
	// insertLinks gives the codes whose rows were there before, which are few, and not
	// those that it inserted.
	insertLinks = `WITH inserted AS (
			INSERT INTO links (code, url, source, created_at, expires_at)
			SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[])
			ON CONFLICT (code) DO NOTHING RETURNING code)
		SELECT code FROM unnest($1::text[]) AS wanted (code) WHERE code NOT IN (SELECT code FROM inserted)`
	selectLinks = `SELECT code, url, source, created_at, expires_at, deleted_at FROM links WHERE code = ANY($1::text[])`
	selectLink  = `SELECT url, source, created_at, expires_at, deleted_at FROM links WHERE code = $1`
)

// Insert implements [Store].
func (s *PostgresStore) Insert(ctx context.Context, links []Link) ([]Outcome, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to insert links: %w: %w", ErrNotWritten, err)
	}
	defer conn.Release()
	columns := newLinkColumns(links)
	rows, err := conn.Query(ctx, insertLinks, columns.codes, columns.urls, columns.sources, columns.created, columns.expires)
	if err != nil {
		return nil, s.insertFailed(err)
	}
	taken, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, s.insertFailed(err)
	}
	if len(taken) == 0 && !columns.twins() {
		return slices.Repeat([]Outcome{Inserted}, len(links)), nil
	}
	stored, err := storedLinks(ctx, conn, taken)
	if err != nil {
		// The rows are durable all the same: the outcome is unknown, not ErrNotWritten.
		return nil, fmt.Errorf("look up the links in conflict: %w", err)
	}
	return outcomesOf(links, stored), nil
}

// outcomesOf is what became of links, given the rows that were there before.
func outcomesOf(links []Link, stored map[string]Link) []Outcome {
	outcomes := make([]Outcome, len(links))
	inserted := make(map[string]bool, len(links))
	for i, l := range links {
		row, there := stored[l.Code]
		switch {
		case there:
			outcomes[i] = judge(links, outcomes, i, row)
		case inserted[l.Code]:
			outcomes[i] = Conflict
		default:
			outcomes[i], inserted[l.Code] = Inserted, true
		}
	}
	return outcomes
}

// linkColumns is links turned on their side, as unnest takes them.
type linkColumns struct {
	codes, urls, sources []string
	created              []time.Time
	expires              []pgtype.Timestamptz
}

// newLinkColumns sorts the links by code: two Inserts that have codes in common
// wait for each other's rows, and would do so in a circle if they met them in
// different orders.
func newLinkColumns(links []Link) *linkColumns {
	sorted := make([]*Link, len(links))
	for i := range links {
		sorted[i] = &links[i]
	}
	slices.SortStableFunc(sorted, func(a, b *Link) int { return cmp.Compare(a.Code, b.Code) })
	texts := make([]string, 3*len(links))
	c := &linkColumns{
		codes:   texts[:len(links)],
		urls:    texts[len(links) : 2*len(links)],
		sources: texts[2*len(links):],
		created: make([]time.Time, len(links)),
		expires: make([]pgtype.Timestamptz, len(links)),
	}
	for i, l := range sorted {
		c.codes[i], c.urls[i], c.sources[i] = l.Code, l.URL, l.Source
		c.created[i] = l.CreatedAt
		c.expires[i] = pgtype.Timestamptz{Time: l.ExpiresAt, Valid: !l.ExpiresAt.IsZero()}
	}
	return c
}

// twins reports whether two of the links have one code.
func (c *linkColumns) twins() bool {
	for i := 1; i < len(c.codes); i++ {
		if c.codes[i] == c.codes[i-1] {
			return true
		}
	}
	return false
}

func storedLinks(ctx context.Context, conn *pgxpool.Conn, codes []string) (map[string]Link, error) {
	rows, err := conn.Query(ctx, selectLinks, codes)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	stored := make(map[string]Link)
	for rows.Next() {
		var code string
		link, err := scanLink(rows, &code)
		if err != nil {
			return nil, err
		}
		link.Code = code
		stored[code] = link
	}
	return stored, rows.Err()
}

// scanLink reads a row of selectLink, or with first one of selectLinks.
func scanLink(row pgx.Row, first ...any) (Link, error) {
	var link Link
	var created, expires, deleted pgtype.Timestamptz
	if err := row.Scan(append(first, &link.URL, &link.Source, &created, &expires, &deleted)...); err != nil {
		return Link{}, err
	}
	link.CreatedAt = created.Time.UTC()
	link.ExpiresAt = expires.Time.UTC() // the zero time where it is null
	link.DeletedAt = deleted.Time.UTC()
	return link, nil
}

// Lookup implements [Store].
func (s *PostgresStore) Lookup(ctx context.Context, code string) (Link, error) {
	link, err := scanLink(s.pool.QueryRow(ctx, selectLink, code))
	if errors.Is(err, pgx.ErrNoRows) {
		return Link{}, ErrNotFound
	}
	if err != nil {
		return Link{}, fmt.Errorf("look up a link: %w", err)
	}
	link.Code = code
	return link, nil
}

// Delete implements [Store].
func (s *PostgresStore) Delete(ctx context.Context, code string, now time.Time) error {
	tag, err := s.pool.Exec(ctx, `UPDATE links SET deleted_at = coalesce(deleted_at, $2) WHERE code = $1`, code, now)
	if err != nil {
		s.evictReadOnly(err)
		return fmt.Errorf("delete a link: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNotFound
	}
	return nil
}

// All implements [Store]. It is one statement, so it sees one moment; the rows come
// as fast as they are taken.
func (s *PostgresStore) All(ctx context.Context) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		rows, err := s.pool.Query(ctx, `SELECT code, source FROM links`)
		if err != nil {
			cancel()
			yield(Link{}, fmt.Errorf("read all links: %w", err))
			return
		}
		defer rows.Close()
		defer cancel() // before Close, which would read on to the last row
		for rows.Next() {
			var link Link
			err := rows.Scan(&link.Code, &link.Source)
			if err != nil {
				break // and so does rows.Err
			}
			if !yield(link, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Link{}, fmt.Errorf("read all links: %w", err))
		}
	}
}

// Ping implements [Store].
func (s *PostgresStore) Ping(ctx context.Context) error {
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

// SQLSTATE codes and classes, https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	stateReadOnly          = "25006"
	stateDiskFull          = "53100"
	stateCompletionUnknown = "40003"

	classConnection   = "08"
	classData         = "22"
	classConstraint   = "23"
	classLimit        = "54"
	classIntervention = "57"
)

// insertFailed says what the error of an INSERT means. That statement is its own
// transaction, and the reply to it comes after the commit: a connection that was
// lost may have lost the reply only. When the server itself reports an error it has
// rolled back, unless it was told to stop (class 57, or the severity FATAL) or
// speaks of another server (class 08), which can happen after the commit as well.
func (s *PostgresStore) insertFailed(err error) error {
	s.evictReadOnly(err)
	var reply *pgconn.PgError
	if !errors.As(err, &reply) || reply.SeverityUnlocalized != "ERROR" || len(reply.Code) != 5 {
		return fmt.Errorf("insert links: %w", err)
	}
	switch class := reply.Code[:2]; {
	case class == classIntervention || class == classConnection || reply.Code == stateCompletionUnknown:
		return fmt.Errorf("insert links: %w", err)
	case class == classData || class == classConstraint || class == classLimit:
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	case reply.Code == stateDiskFull:
		err = fmt.Errorf("%w: %w", ErrStoreFull, err)
	}
	return fmt.Errorf("insert links: %w: %w", ErrNotWritten, err)
}

// evictReadOnly drops the pool's connections when one of them turns out to lead to a
// demoted primary. target_session_attrs is only looked at when connecting, so they
// would go on being used for ever.
func (s *PostgresStore) evictReadOnly(err error) {
	var reply *pgconn.PgError
	if errors.As(err, &reply) && reply.Code == stateReadOnly {
		s.pool.Reset()
	}
}
