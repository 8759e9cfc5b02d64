package space

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"

	_ "modernc.org/sqlite" // the driver sqlite
)

// crowd is a database in which the first codes of one length are in use, and the ledger knows
// it. The share of codes in use stands still while links are made: for each new link one that
// only fills the space goes. Triggers record every code that a link is to be stored with,
// whether it is free or not. fill is called while no server uses the database.
type crowd struct {
	t      *experiment.T
	db     *sql.DB
	url    string
	length int

	filled  int64 // the numbers below are in use
	leaving int64 // up to so many of the last of them go, one for each new link
}

// newCrowd makes a database without any link.
func newCrowd(t *experiment.T, length int) *crowd {
	path := filepath.Join(t.TempDir(), "crowd.db")
	c := &crowd{t: t, url: "sqlite:" + path, length: length}
	if out, err := lab.Command(t, "shortener", t.TempDir(), c.settings(), "migrate").CombinedOutput(); err != nil {
		t.Fatalf("shortener migrate: %w; its output:\n%s", err, out)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	t.Must(err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close %s: %w", path, err)
		}
	})
	c.db = db
	c.exec(`CREATE TABLE offered (code TEXT NOT NULL)`)
	c.exec(`CREATE TABLE leaving (code TEXT NOT NULL)`)
	return c
}

// settings are those of a server that uses the database.
func (c *crowd) settings() []string {
	return []string{"DATABASE_URL=" + c.url, "KGS_PERMUTE=false", fmt.Sprintf("CODE_LENGTH=%d", c.length)}
}

func (c *crowd) exec(statement string, args ...any) {
	_, err := c.db.ExecContext(c.t.Context(), statement, args...)
	c.t.Must(err)
}

// fill brings the codes in use to n, of which leaving ones go one by one as links are made, and
// forgets all codes that were offered. When leaving is more than n all go, and the share grows
// from then on.
func (c *crowd) fill(n, leaving int64) {
	leaving = min(leaving, n)
	c.exec(`DROP TRIGGER IF EXISTS offers`)
	c.exec(`DROP TRIGGER IF EXISTS leaves`)
	for _, table := range []string{"offered", "leaving", "kgs_ranges"} {
		c.exec(`DELETE FROM ` + table)
	}
	c.exec(`DELETE FROM links WHERE url <> $1 OR $2`, filler, n < c.filled)
	if n < c.filled {
		c.filled, c.leaving = 0, 0
	}
	c.exec(`UPDATE kgs_spaces SET next = $1 WHERE length = $2`, n, c.length)
	const numbers = `WITH RECURSIVE numbers(n) AS (SELECT $1 WHERE $1 < $2 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < $2) `
	code := codeSQL(c.length)
	c.exec(numbers+`INSERT OR IGNORE INTO links (code, url, source, created_at) SELECT `+code+`, $3, 'pool', 0 FROM numbers`,
		c.filled-c.leaving, n, filler)
	c.exec(numbers+`INSERT INTO leaving (code) SELECT `+code+` FROM numbers`, n-leaving, n)
	c.exec(`CREATE TRIGGER offers BEFORE INSERT ON links BEGIN
		INSERT INTO offered (code) VALUES (NEW.code);
	END`)
	c.exec(`CREATE TRIGGER leaves AFTER INSERT ON links BEGIN
		DELETE FROM links WHERE code = (SELECT code FROM leaving ORDER BY rowid DESC LIMIT 1);
		DELETE FROM leaving WHERE rowid = (SELECT max(rowid) FROM leaving);
	END`)
	c.filled, c.leaving = n, leaving
}

// offered returns each code that a link was to be stored with since the last fill, in order.
func (c *crowd) offered() (codes []string) {
	rows, err := c.db.QueryContext(c.t.Context(), `SELECT code FROM offered ORDER BY rowid`)
	c.t.Must(err)
	defer func() { _ = rows.Close() }() // Err has what went wrong
	for rows.Next() {
		var code string
		c.t.Must(rows.Scan(&code))
		codes = append(codes, code)
	}
	c.t.Must(rows.Err())
	return codes
}

// counts is what the store and the server have counted so far.
type counts struct {
	offered             []string
	attempts, creations float64 // of the fallback, by its own count
	seconds, commits    float64
}

func (c *crowd) counts(server *lab.Program) counts {
	now := counts{offered: c.offered()}
	res, err := http.Get(server.Admin + "/metrics") //nolint:noctx // it is answered at once or not at all
	c.t.Must(err)
	defer func() { _ = res.Body.Close() }() // it was read or is an error by now
	text, err := io.ReadAll(res.Body)
	c.t.Must(err)
	for name, into := range map[string]*float64{
		"kgs_fallback_attempts_sum ": &now.attempts, "kgs_fallback_attempts_count ": &now.creations,
		"shortener_commit_seconds_sum ": &now.seconds, "shortener_commit_seconds_count ": &now.commits,
	} {
		_, line, found := strings.Cut(string(text), "\n"+name)
		value, _, _ := strings.Cut(line, "\n")
		*into, err = strconv.ParseFloat(value, 64)
		if !found || err != nil {
			c.t.Fatalf("the server reports no metric %s: %w", name, err)
		}
	}
	return now
}
