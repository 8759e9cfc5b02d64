package space

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // registers the driver sqlite

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

// crowd is a database whose space is partly full. Its fillers are links that only fill the space. The fillers
// have the first codes of one length, and the ledger records the numbers of these codes as reserved. While links
// are made and fillers are left, the share of codes in use is constant, because each new link removes the last
// filler. A trigger records every offer: a link that the store tries to insert, whether its code is free or not.
type crowd struct {
	*experiment.T
	db       *sql.DB
	length   int
	settings []string // settings of a server that uses the database
}

// newCrowd makes a database without links.
func newCrowd(t *experiment.T, length int) *crowd {
	path := filepath.Join(t.TempDir(), "crowd.db")
	c := &crowd{T: t, length: length, settings: []string{"DATABASE_URL=sqlite:" + path, "KGS_PERMUTE=false", fmt.Sprintf("CODE_LENGTH=%d", length)}}
	server := lab.Server(t, append([]string{"KEY_SOURCE=random"}, c.settings...)...)
	server.Start() // creates the tables, and records in which order links are stored
	server.Stop()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	t.Must(err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close %s: %w", path, err)
		}
	})
	c.db = db
	c.exec(`CREATE TABLE offered (code TEXT NOT NULL, url TEXT NOT NULL)`)
	c.exec(`CREATE TABLE fillers (n INTEGER NOT NULL)`) // n is the number of fillers; when no filler is left, each new link still subtracts 1
	c.exec(`INSERT INTO fillers VALUES (0)`)
	const made = ` INSERT ON ranked_links WHEN NEW.url <> '` + filler + `' BEGIN `
	c.exec(`CREATE TRIGGER offers BEFORE` + made + `INSERT INTO offered (code, url) VALUES (NEW.code, NEW.url); END`)
	c.exec(`CREATE TRIGGER leaves AFTER` + made + `
		UPDATE fillers SET n = n - 1;
		DELETE FROM ranked_links WHERE rank = (SELECT n + ` + rankSQL(length) + ` FROM fillers WHERE n >= 0);
	END`)
	return c
}

func (c *crowd) exec(statement string, args ...any) {
	_, err := c.db.ExecContext(c.Context(), statement, args...)
	c.Must(err)
}

// fill removes all links except fillers, and raises the number of fillers to n. No server may use
// the database meanwhile.
func (c *crowd) fill(n int64) {
	c.exec(`DELETE FROM kgs_ranges`)
	c.exec(`UPDATE kgs_spaces SET next = $1 WHERE length = $2`, n, c.length)
	c.exec(`DELETE FROM ranked_links WHERE url <> $1`, filler)
	c.exec(`WITH RECURSIVE numbers(n) AS (SELECT max(n, 0) FROM fillers WHERE n < $1 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < $1)
		INSERT INTO ranked_links (rank, code, url, source, created_at) SELECT n + `+rankSQL(c.length)+`, `+codeSQL(c.length)+`, $2, 'pool', 0 FROM numbers`, n, filler)
	c.exec(`UPDATE fillers SET n = $1`, n)
}

// offered calls visit with the code and the URL of every offer in the table offered.
func (c *crowd) offered(visit func(code, url string)) {
	var offers string
	c.Must(c.db.QueryRowContext(c.Context(), `SELECT coalesce(group_concat(code || ' ' || url, ' '), '') FROM offered`).Scan(&offers))
	for offer := range slices.Chunk(strings.Fields(offers), 2) {
		visit(offer[0], offer[1])
	}
}
