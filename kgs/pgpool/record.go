package pgpool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Record is the row of a key in the tables of the pool. The zero time stands for "never".
type Record struct {
	ID         int64     `json:"id"`       // id of the key in the pool; with KGS_TAKE=reserve, a used key has the last id of its batch
	Reserved   bool      `json:"reserved"` // whether a server has reserved the key (KGS_TAKE=reserve)
	Holder     string    `json:"holder,omitempty"`
	ReservedAt time.Time `json:"reserved_at,omitzero"`
	UsedAt     time.Time `json:"used_at,omitzero"` // when a server took the key; with KGS_TAKE=reserve, when the server settled it as used
}

// A key that was drawn a second time may be in both tables. findKey returns the row of used_keys, because Take
// drops the other row.
const findKey = `SELECT id, false, '', reserved_at, used_at FROM used_keys WHERE key = $1
	UNION ALL SELECT id, is_reserved, coalesce(holder, ''), reserved_at, NULL FROM available_keys WHERE key = $1 LIMIT 1`

// Find returns the row of a key in the pool in db, or nil if there is none. It takes no locks and changes nothing.
func Find(ctx context.Context, db *pgxpool.Pool, key string) (*Record, error) {
	var r Record
	var reserved, used *time.Time
	err := db.QueryRow(ctx, findKey, key).Scan(&r.ID, &r.Reserved, &r.Holder, &reserved, &used)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil //nolint:nilnil // no row
	case err != nil:
		return nil, fmt.Errorf("find a key in the pool: %w", err)
	}
	if reserved != nil {
		r.ReservedAt = reserved.UTC()
	}
	if used != nil {
		r.UsedAt = used.UTC()
	}
	return &r, nil
}
