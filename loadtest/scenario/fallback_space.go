package scenario

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"keypool/internal/sqlite"
	"keypool/kgs/codespace"
	"keypool/migrations"
)

// filler is where the links lead that are only there to fill a space.
const filler = "https://filler.example/"

// crowd is a database whose codes of one length are in use up to a share, and stay so while
// links are made. The links that fill it have the codes that the ledger would have given,
// and the ledger knows of them. Its methods, but for offered, are called while no server is
// on the database.
//
// What the store itself saw is on record by triggers: every code that a link was to be
// stored with, whether it was free or not. For each link that is made one that fills goes,
// so that every draw meets the same share.
type crowd struct {
	db     *sqlite.DB
	path   string
	secret string // hex
	space  *codespace.Space
	length int

	filled  int64 // the numbers below are in use
	leaving int64 // so many of the last of them may have gone
}

// newCrowd makes a database in dir, nothing of it in use.
func newCrowd(ctx context.Context, dir string, length int) (*crowd, error) {
	secret := make([]byte, 16)
	rand.Read(secret) // never fails
	space, err := codespace.New(secret)
	if err != nil {
		return nil, err
	}
	c := &crowd{path: filepath.Join(dir, "crowd.db"), secret: hex.EncodeToString(secret), space: space, length: length}
	if c.db, err = sqlite.Open(ctx, c.path); err != nil {
		return nil, err
	}
	err = migrations.Up(ctx, c.db.Write, migrations.SQLite)
	if err == nil {
		_, err = c.db.Write.ExecContext(ctx, `
			CREATE TABLE offered (code TEXT NOT NULL);
			CREATE TABLE leaving (code TEXT NOT NULL)`)
	}
	if err != nil {
		return nil, errors.Join(err, c.db.Close())
	}
	return c, nil
}

func (c *crowd) close() error { return c.db.Close() }

// settings are what a server on the database is to be told.
func (c *crowd) settings() []string {
	return []string{
		"DATABASE_URL=sqlite:" + c.path, "KGS_SECRET=" + c.secret, fmt.Sprintf("CODE_LENGTH=%d", c.length),
	}
}

// size is how many codes there are.
func (c *crowd) size() int64 { return codespace.Size(c.length) }

// fill brings the share in use to n codes, of which leaving ones go one by one as links are
// made, and forgets what was made and offered. Of fewer codes than leaving all go, and the
// share grows from then on.
func (c *crowd) fill(ctx context.Context, n, leaving int64) error {
	leaving = min(leaving, n)
	made := `DELETE FROM links WHERE url <> '` + filler + `'`
	if n < c.filled {
		c.filled, c.leaving = 0, 0
		made = `DELETE FROM links` // all of it anew
	}
	tx, err := c.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing and says so
	_, err = tx.ExecContext(ctx, `
		DROP TRIGGER IF EXISTS offers;
		DROP TRIGGER IF EXISTS leaves;
		DELETE FROM offered;
		DELETE FROM leaving;
		DELETE FROM kgs_ranges;
		`+made+`;
		UPDATE kgs_spaces SET next = $1 WHERE length = $2`, n, c.length)
	if err != nil {
		return err
	}
	err = c.insert(ctx, tx, `INSERT INTO links (code, url, source, created_at) VALUES ($1, '`+filler+`', 'pool', 0)
		ON CONFLICT (code) DO NOTHING`, c.filled-c.leaving, n)
	if err == nil {
		err = c.insert(ctx, tx, `INSERT INTO leaving (code) VALUES ($1)`, n-leaving, n)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `
			CREATE TRIGGER offers BEFORE INSERT ON links BEGIN
				INSERT INTO offered (code) VALUES (NEW.code);
			END;
			CREATE TRIGGER leaves AFTER INSERT ON links BEGIN
				DELETE FROM links WHERE code = (SELECT code FROM leaving ORDER BY rowid DESC LIMIT 1);
				DELETE FROM leaving WHERE rowid = (SELECT max(rowid) FROM leaving);
			END`)
	}
	if err != nil {
		return err
	}
	c.filled, c.leaving = n, leaving
	return tx.Commit()
}

// chunk is how many codes are sorted and inserted at a time: in the order of the index
// they go in many times as fast.
const chunk = 1 << 20

// insert runs an INSERT for the code of every number from lo to below hi.
func (c *crowd) insert(ctx context.Context, tx *sql.Tx, query string, lo, hi int64) error {
	statement, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = statement.Close() }() // ends with the transaction anyway
	for ; lo < hi; lo += chunk {
		codes := c.space.Codes(codespace.Range{Length: c.length, Lo: lo, Hi: min(lo+chunk, hi)})
		slices.Sort(codes)
		for _, code := range codes {
			if _, err := statement.ExecContext(ctx, code); err != nil {
				return err
			}
		}
	}
	return nil
}

// offered gives each code that a link was to be stored with since the last fill.
func (c *crowd) offered(ctx context.Context) (codes []string, err error) {
	rows, err := c.db.Read.QueryContext(ctx, `SELECT code FROM offered`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // whatever it says, rows.Err says too
	for rows.Next() {
		var code string
		if err := rows.Scan(&code); err != nil {
			return nil, err
		}
		codes = append(codes, code)
	}
	return codes, rows.Err()
}
