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

const (
	insertRanked = `INSERT INTO ranked_links (rank, code, url, source, created_at, expires_at)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
		WHERE ` + sameOrder + `$7)`
	insertUnranked = `INSERT INTO unranked_links (code, url, source, created_at, expires_at)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[])
		WHERE ` + sameOrder + `$6)`
	// An Insert uses one of the next two statements if at least one of its links in the table has details or is deleted.
	// Otherwise it uses one of the statements above, which need two values fewer for each link.
	insertRankedDetails = `INSERT INTO ranked_links (rank, code, url, source, created_at, expires_at, deleted_at, details)
		SELECT r, c, u, s, a, e, x, d::jsonb FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
		$8::timestamptz[], $9::text[]) AS links (r, c, u, s, a, e, x, d) WHERE ` + sameOrder + `$7)`
	insertUnrankedDetails = `INSERT INTO unranked_links (code, url, source, created_at, expires_at, deleted_at, details)
		SELECT c, u, s, a, e, x, d::jsonb FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[],
		$7::timestamptz[], $8::text[]) AS links (c, u, s, a, e, x, d) WHERE ` + sameOrder + `$6)`
	// The next two statements insert a single link (see insertEach).
	insertOneRanked   = `INSERT INTO ranked_links (rank, code, url, source, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`
	insertOneUnranked = `INSERT INTO unranked_links (code, url, source, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)`
	// requireOrder fails with stateDivisionByZero if the database keeps its links in another order than the store.
	requireOrder = `SELECT 1 / CASE WHEN ` + sameOrder + `$1) THEN 1 ELSE 0 END`
	// sameOrder is the beginning of a condition. Each statement adds a parameter, which is a fingerprint, and the closing
	// parenthesis. The condition is true if the order on record has this fingerprint, or if no order is on record. A
	// process may be suspended while `shortener reindex` changes the order. Without this condition, the process would then
	// write rows where no look-up finds them.
	sameOrder = `NOT EXISTS (SELECT FROM link_order WHERE fingerprint <> `
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

func (c *columns) values() []any {
	values := []any{c.ranks, c.codes, c.urls, c.sources, c.created, c.expires, c.order, c.deleted, c.details}
	if c.details == nil {
		values = values[:7]
	}
	if c.ranks == nil {
		return values[1:]
	}
	return values
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
