package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"keypool/kgs/codespace"
	"keypool/shortener"
)

const (
	// fillRows is how many numbers a transaction of the filling goes through.
	fillRows = 1_000_000
	// removeRows is how many links a transaction removes.
	removeRows = 10_000
)

// dialect is in what the two engines differ here.
type dialect struct {
	numbers string // a table of the numbers i from the first to the second argument, exclusive
	now     string // as created_at takes it
	after   []string
}

func dialectOf(e engine) dialect {
	if e == sqliteEngine {
		return dialect{
			numbers: `(WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d) SELECT i FROM n)`,
			now:     `unixepoch() * 1000000`,
			after:   []string{`PRAGMA wal_checkpoint(TRUNCATE)`},
		}
	}
	return dialect{
		numbers: `generate_series(%d::bigint, %d::bigint - 1) AS numbers(i)`,
		now:     `now()`,
		// What the server would do in the background while something is being measured.
		after: []string{`VACUUM (ANALYZE) links`, `CHECKPOINT`},
	}
}

// fill lets the engine itself make the links, in the order of their codes, which is fast:
// first two of three, then those in between, so that the pages of the index are split and
// as loosely filled as those of an index that grew by chance.
func (f *filled) fill(ctx context.Context) error {
	d := dialectOf(f.engine)
	for _, third := range []string{"i % 3 < 2", "i % 3 = 2"} {
		for lo := int64(0); lo < f.links; lo += fillRows {
			numbers := fmt.Sprintf(d.numbers, lo, min(lo+fillRows, f.links))
			statement := fmt.Sprintf(`INSERT INTO links (code, url, source, created_at)
				SELECT code, '%s' || code, '%s', %s FROM (SELECT %s AS code FROM %s WHERE %s) AS made`,
				urlPrefix, shortener.SourceAlias, d.now, f.codeSQL(), numbers, third)
			if err := f.exec(ctx, statement); err != nil {
				return err
			}
		}
	}
	return f.execAll(ctx, d.after)
}

// remove removes the links of the codes, and leaves the database as fill does.
func (f *filled) remove(ctx context.Context, codes []string) error {
	slices.Sort(codes) // neighbours are on the same page
	var statements []string
	for some := range slices.Chunk(codes, removeRows) {
		statements = append(statements, "DELETE FROM links WHERE code IN ('"+strings.Join(some, "', '")+"')")
	}
	return f.execAll(ctx, append(statements, dialectOf(f.engine).after...))
}

func (f *filled) execAll(ctx context.Context, statements []string) error {
	for _, statement := range statements {
		if err := f.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// codeSQL is [filled.code] of i in SQL.
func (f *filled) codeSQL() string {
	var digits []string
	for value := int64(codeSpace / 62); value > 0; value /= 62 {
		digits = append(digits, fmt.Sprintf(`substr('%s', CAST(i * %d / %d %% 62 AS integer) + 1, 1)`, codespace.Alphabet, f.step(), value))
	}
	return strings.Join(digits, " || ")
}
