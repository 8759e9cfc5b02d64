package pgstore

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"keypool/shortener"
)

// In these statements, $1 is the fingerprint of sameOrder. The other parameters are the columns, in the order of the column
// list. See columns.queue.
const (
	insertRanked = `INSERT INTO ranked_links (rank, code, url, source, created_at, expires_at)
		SELECT * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
		WHERE ` + sameOrder
	insertUnranked = `INSERT INTO unranked_links (code, url, source, created_at, expires_at)
		SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
		WHERE ` + sameOrder
	// An Insert uses one of the next two statements if at least one of its links in the table has details or is deleted.
	// Otherwise it uses one of the statements above, which need two values fewer for each link.
	insertRankedDetails = `INSERT INTO ranked_links (rank, code, url, source, created_at, expires_at, deleted_at, details)
		SELECT r, c, u, s, a, e, x, d::jsonb FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[],
		$8::timestamptz[], $9::text[]) AS links (r, c, u, s, a, e, x, d) WHERE ` + sameOrder
	insertUnrankedDetails = `INSERT INTO unranked_links (code, url, source, created_at, expires_at, deleted_at, details)
		SELECT c, u, s, a, e, x, d::jsonb FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
		$7::timestamptz[], $8::text[]) AS links (c, u, s, a, e, x, d) WHERE ` + sameOrder
)

const (
	// These two statements insert a single link (see insertEach).
	insertOneRanked   = `INSERT INTO ranked_links (rank, code, url, source, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`
	insertOneUnranked = `INSERT INTO unranked_links (code, url, source, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)`
	// requireOrder fails with stateDivisionByZero if the database keeps its links in another order than the store.
	requireOrder = `SELECT 1 / CASE WHEN ` + sameOrder + ` THEN 1 ELSE 0 END`
	// sameOrder is true if the order on record has the fingerprint $1, or if no order is on record. A process may be
	// suspended while `shortener reindex` changes the order. Without this condition, the process would then write rows
	// where no look-up finds them.
	sameOrder = `NOT EXISTS (SELECT FROM link_order WHERE fingerprint <> $1)`
	// returningNew is the end of an INSERT that ignores links whose codes are in use.
	returningNew = ` ON CONFLICT DO NOTHING RETURNING code`
)

// columns contains the links of one table as one slice per column. The slices are the arguments of unnest.
type columns struct {
	ranks                []int64 // nil for the table of links without a rank
	codes, urls, sources []string
	created              []time.Time
	expires              []pgtype.Timestamptz
	order                string               // fingerprint of the order that determines the ranks
	deleted              []pgtype.Timestamptz // nil if details is nil
	details              []*string            // nil if no link has details or is deleted
}

// queue adds to the batch one statement that inserts all links. The parameter end is the end of the statement.
func (c *columns) queue(batch *pgx.Batch, end string) *pgx.QueuedQuery {
	values := append(make([]any, 0, 9), c.order)
	if c.ranks != nil {
		values = append(values, c.ranks)
	}
	values = append(values, c.codes, c.urls, c.sources, c.created, c.expires)
	if c.details != nil {
		values = append(values, c.deleted, c.details)
	}
	return batch.Queue(c.statement()+end, values...)
}

func (c *columns) statement() string {
	switch {
	case c.ranks == nil && c.details == nil:
		return insertUnranked
	case c.ranks == nil:
		return insertUnrankedDetails
	case c.details == nil:
		return insertRanked
	}
	return insertRankedDetails
}

// queueEach adds one statement for each link to the batch. The links must not have details.
func (c *columns) queueEach(batch *pgx.Batch) {
	for i, code := range c.codes {
		if c.ranks == nil {
			batch.Queue(insertOneUnranked, code, c.urls[i], c.sources[i], c.created[i], c.expires[i])
		} else {
			batch.Queue(insertOneRanked, c.ranks[i], code, c.urls[i], c.sources[i], c.created[i], c.expires[i])
		}
	}
}

// placed is a link and the rank of its code.
type placed struct {
	*shortener.Link
	rank int64 // noRank if the code has no rank
}

// noRank is greater than every rank.
const noRank = math.MaxInt64

// columnsOf returns the columns for each table to which any of the links belongs. It sorts the links of a table by
// the primary key, because two Inserts with the same codes wait for each other's rows. If they wrote the rows in
// different orders, they could deadlock.
func (s *Store) columnsOf(links []shortener.Link) (tables []*columns) {
	all := make([]placed, len(links))
	ranked := 0
	for i := range links {
		all[i] = placed{&links[i], noRank}
		if rank, ok := s.order.Rank(links[i].Code); ok {
			all[i].rank = rank
			ranked++
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Code, b.Code))
	})
	if ranked > 0 {
		c := newColumns(all[:ranked])
		c.ranks = make([]int64, ranked)
		for i := range c.ranks {
			c.ranks[i] = all[i].rank
		}
		tables = append(tables, c)
	}
	if ranked < len(all) {
		tables = append(tables, newColumns(all[ranked:]))
	}
	for _, c := range tables {
		c.order = s.fingerprint
	}
	return tables
}

func newColumns(links []placed) *columns {
	texts := make([]string, 3*len(links))
	c := &columns{
		codes:   texts[:len(links)],
		urls:    texts[len(links) : 2*len(links)],
		sources: texts[2*len(links):],
		created: make([]time.Time, len(links)),
		expires: make([]pgtype.Timestamptz, len(links)),
	}
	for i, l := range links {
		c.codes[i], c.urls[i], c.sources[i] = l.Code, l.URL, l.Source
		c.created[i] = l.CreatedAt
		c.expires[i] = orNull(l.ExpiresAt)
		if l.Details == nil && l.DeletedAt.IsZero() {
			continue
		}
		if c.details == nil {
			c.deleted, c.details = make([]pgtype.Timestamptz, len(links)), make([]*string, len(links))
		}
		c.deleted[i], c.details[i] = orNull(l.DeletedAt), l.Details.Text()
	}
	return c
}
