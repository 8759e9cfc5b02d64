package visits

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// overflow is the value under which all values beyond MaxValues are counted. No visit has this value.
const overflow = ""

// erasedDay is the day of a row that marks an erased link. The value of this row is overflow, and its counts are 0. No visit
// is on this day, and Expire does not remove the row. So the store refuses facets of the link for ever.
const erasedDay = 1<<31 - 1 // the last day that the column can contain

// group identifies the values of one facet of one link on one day. MaxValues limits the number of values of each
// group.
type group struct {
	code  string
	facet Facet
	day   int64
}

func (r *FacetRow) group() group { return group{r.Code, r.Facet, r.Day} }

func facetColumns(r *FacetRow) []any {
	return []any{r.Code, r.Facet, r.Day, r.Value, r.Human, r.Bot}
}

// facetSource is an SQL subquery that returns the rows of a JSON array whose elements facetColumns made. The verb %s stands for
// engine.elements.
const facetSource = `(SELECT value->>0 AS code, CAST(value->>1 AS bigint) AS facet, CAST(value->>2 AS bigint) AS day,
	value->>3 AS value, CAST(value->>4 AS bigint) AS human, CAST(value->>5 AS bigint) AS bot FROM %s)`

// addFacets adds the counts of facets, except for erased links. It calls exclude, so that only one transaction at a
// time adds or erases facets. Without exclude, two concurrent transactions could store more than MaxValues values of a
// group.
func (s Store) addFacets(ctx context.Context, tx *sql.Tx, rows []FacetRow) error {
	if err := s.exclude(ctx, tx); err != nil {
		return err
	}
	rows, err := s.withoutErased(ctx, tx, rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	added, err := s.addKnown(ctx, tx, rows)
	if err != nil {
		return err
	}
	var rest []FacetRow
	for i := range rows {
		if !added[rows[i].key()] {
			rest = append(rest, rows[i])
		}
	}
	if len(rest) == 0 {
		return nil
	}
	sizes, err := s.sizes(ctx, tx, rest)
	if err != nil {
		return err
	}
	return s.addNew(ctx, tx, limited(rest, sizes))
}

// withoutErased returns the rows whose links are not erased. It asks the database for the mark (see erasedMark) of
// each link. If the rows of a link are neighbours, it asks for the mark of the link only once.
func (s Store) withoutErased(ctx context.Context, tx *sql.Tx, rows []FacetRow) ([]FacetRow, error) {
	var marks []FacetRow
	for i := range rows {
		if i == 0 || rows[i].Code != rows[i-1].Code {
			marks = append(marks, erasedMark(rows[i].Code))
		}
	}
	text, err := array(marks, facetColumns)
	if err != nil {
		return nil, err
	}
	erased := make(map[string]bool)
	var code string
	err = forEach(ctx, tx, `SELECT b.code FROM `+fmt.Sprintf(facetSource, s.engine.elements)+` AS b
		JOIN visit_facets AS f ON f.code = b.code AND f.facet = b.facet AND f.day = b.day AND f.value = b.value`,
		[]any{text}, []any{&code}, func() { erased[code] = true })
	if err != nil || len(erased) == 0 {
		return rows, err
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r FacetRow) bool { return erased[r.Code] }), nil
}

// erasedMark returns the row that marks an erased link.
func erasedMark(code string) FacetRow {
	return FacetRow{Code: code, Facet: Referrers, Day: erasedDay, Value: overflow}
}

func (r *FacetRow) key() facetKey { return facetKey{r.Code, r.Value, r.Day, r.Facet} }

// addKnown adds the counts of the values that the database has already, and returns these values.
func (s Store) addKnown(ctx context.Context, tx *sql.Tx, rows []FacetRow) (added map[facetKey]bool, err error) {
	text, err := array(rows, facetColumns)
	if err != nil {
		return nil, err
	}
	added = make(map[facetKey]bool, len(rows))
	var key facetKey
	err = forEach(ctx, tx, `UPDATE visit_facets SET human = visit_facets.human + b.human, bot = visit_facets.bot + b.bot
		FROM `+fmt.Sprintf(facetSource, s.engine.elements)+` AS b
		WHERE visit_facets.code = b.code AND visit_facets.facet = b.facet AND visit_facets.day = b.day AND visit_facets.value = b.value
		RETURNING visit_facets.code, visit_facets.value, visit_facets.day, visit_facets.facet`,
		[]any{text}, []any{&key.code, &key.value, &key.day, &key.facet}, func() { added[key] = true })
	return added, err
}

// sizes returns the number of values that the database has for each group that occurs in rows. The value overflow does
// not count. The rows of a group must be neighbours.
func (s Store) sizes(ctx context.Context, tx *sql.Tx, rows []FacetRow) (sizes map[group]int, err error) {
	sizes = make(map[group]int)
	var groups []FacetRow
	for i := range rows {
		if g := rows[i].group(); i == 0 || g != rows[i-1].group() {
			groups = append(groups, FacetRow{Code: g.code, Facet: g.facet, Day: g.day})
		}
	}
	text, err := array(groups, facetColumns)
	if err != nil {
		return nil, err
	}
	var g group
	var n int
	// The query uses a join, because Citus does not support correlated subqueries on the rows of a function.
	err = forEach(ctx, tx, `SELECT b.code, b.facet, b.day, count(f.code) FROM `+fmt.Sprintf(facetSource, s.engine.elements)+` AS b
		LEFT JOIN visit_facets AS f ON f.code = b.code AND f.facet = b.facet AND f.day = b.day AND f.value <> ''
		GROUP BY b.code, b.facet, b.day`,
		[]any{text}, []any{&g.code, &g.facet, &g.day, &n}, func() { sizes[g] = n })
	return sizes, err
}

// limited returns the rows whose values still have room in their groups. It replaces all other rows of a group by
// one row with the value overflow.
func limited(rows []FacetRow, sizes map[group]int) (kept []FacetRow) {
	rest := make(map[group]int) // for each group, the index in kept of its row with the value overflow
	for i := range rows {
		r := rows[i]
		g := r.group()
		if r.Value != overflow && sizes[g] < MaxValues {
			sizes[g]++
			kept = append(kept, r)
			continue
		}
		at, known := rest[g]
		if !known {
			r.Value = overflow
			rest[g] = len(kept)
			kept = append(kept, r)
			continue
		}
		kept[at].Add(r.Count)
	}
	return kept
}

const upsertFacets = `INSERT INTO visit_facets AS f (code, facet, day, value, human, bot)
	SELECT code, facet, day, value, human, bot FROM ` + facetSource + ` AS b WHERE true
	ON CONFLICT (code, facet, day, value) DO UPDATE SET human = f.human + excluded.human, bot = f.bot + excluded.bot`

// addNew inserts values that the database does not have. Only the value overflow may exist already.
func (s Store) addNew(ctx context.Context, tx *sql.Tx, rows []FacetRow) error {
	text, err := array(rows, facetColumns)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(upsertFacets, s.engine.elements), text)
	return err
}

// EraseFacets removes the counts by facet of a link. The numbers of visits by hour stay. It also marks the link as erased: if
// a server still has counts by facet of the link in memory, or counts visits later, the store does not add these counts.
func (s Store) EraseFacets(ctx context.Context, code string) error {
	err := s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.exclude(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM visit_facets WHERE code = $1`, code); err != nil {
			return err
		}
		return s.addNew(ctx, tx, []FacetRow{erasedMark(code)})
	})
	if err != nil {
		return fmt.Errorf("erase the referrers, countries and devices of the visits: %w", err)
	}
	return nil
}

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// forEach scans each row of a query into columns, and calls the function do after each row.
func forEach(ctx context.Context, db queryer, query string, args, columns []any, do func()) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		do()
	}
	return rows.Err()
}
