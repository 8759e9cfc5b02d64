package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"keypool/shortener"
)

// recordCreations adds one row to the table creations: the codes of the links that were inserted. If the database
// keeps its links in another order than s, recordCreations returns ErrOtherOrder. Without this check, a process that
// was suspended while `shortener reindex` changed the order would write rows where no look-up finds them.
func (s *Store) recordCreations(ctx context.Context, tx *sql.Tx, links []shortener.Link, outcomes []shortener.Outcome) error {
	var codes strings.Builder
	for i, o := range outcomes {
		if o != shortener.Inserted {
			continue
		}
		if codes.Len() > 0 {
			codes.WriteByte(' ')
		}
		codes.WriteString(links[i].Code)
	}
	if codes.Len() == 0 {
		return s.checkOrder(ctx, tx)
	}
	record := tx.StmtContext(ctx, s.record.stmt.Load()) //nolint:sqlclosecheck // ends with the transaction
	result, err := record.ExecContext(ctx, codes.String(), s.fingerprint)
	if err != nil {
		return err
	}
	if recorded, err := result.RowsAffected(); err != nil || recorded == 1 {
		return err
	}
	return shortener.ErrOtherOrder
}

// creation is the place of a code in the table creations. It consists of the id of a row and of the position of the
// code in the row, counted from 1.
type creation struct {
	id int64
	n  int
}

func (c creation) String() string { return fmt.Sprintf("%d.%d", c.id, c.n) }

func parseCreation(text string) (c creation, err error) {
	if text == "" {
		return creation{math.MaxInt64, math.MaxInt}, nil
	}
	if _, err := fmt.Sscanf(text, "%d.%d", &c.id, &c.n); err != nil || c.n < 1 || c.String() != text {
		return creation{}, shortener.ErrPosition
	}
	return c, nil
}

// newestOfAll lists the links of all owners in the reverse order of the table creations.
func (s *Store) newestOfAll(ctx context.Context, selection shortener.Selection) (links []shortener.Link, next string, err error) {
	from, err := parseCreation(selection.From)
	if err != nil {
		return nil, "", err
	}
	codes, last, err := s.createdCodes(ctx, from, selection.Limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(codes) > selection.Limit {
		codes, next = codes[:selection.Limit], last.String()
	}
	links, err = s.rows(ctx, codes)
	return links, next, err
}

// createdCodes returns up to limit codes in the reverse order of the table creations. The parameter first is the place
// of the first code, and the result last is the place of the last code.
func (s *Store) createdCodes(ctx context.Context, first creation, limit int) (codes []string, last creation, err error) {
	rows, err := s.db.Scan.QueryContext(ctx, `SELECT id, codes FROM creations WHERE id <= ? ORDER BY id DESC LIMIT ?`, first.id, limit)
	if err != nil {
		return nil, creation{}, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for len(codes) < limit && rows.Next() {
		var text string
		if err := rows.Scan(&last.id, &text); err != nil {
			return nil, creation{}, err
		}
		created := strings.Fields(text)
		if last.id == first.id {
			created = created[:min(first.n, len(created))]
		}
		for last.n = len(created); last.n > 0; last.n-- {
			if codes = append(codes, created[last.n-1]); len(codes) == limit {
				break
			}
		}
	}
	return codes, last, rows.Err()
}
