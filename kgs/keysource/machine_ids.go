package keysource

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/sqlite"
	"keypool/kgs"
)

// errNoMachine means that every suitable machine id is promised to another holder.
var errNoMachine = errors.New("no machine id is free")

// promise limits the numbers that a holder may make with a machine id: only those with times
// before until, in milliseconds since snowflakeEpoch.
type promise struct {
	id     int
	holder string // "" means none
	until  int64
}

// MachineIDs is the table of promises. Each change is one statement with a condition. Therefore
// only one of several concurrent changes succeeds. A statement that arrives after its sender
// gave it up does not affect the promises of others.
type MachineIDs struct {
	db    *sql.DB
	close func() error
}

// NewPostgresMachineIDs uses connections of pool. The caller closes the pool after the
// MachineIDs.
func NewPostgresMachineIDs(pool *pgxpool.Pool) *MachineIDs {
	db := stdlib.OpenDBFromPool(pool)
	return &MachineIDs{db, db.Close}
}

// NewSQLiteMachineIDs uses db. The caller closes db.
func NewSQLiteMachineIDs(db *sqlite.DB) *MachineIDs {
	return &MachineIDs{db.Write, func() error { return nil }}
}

// Close ends the use of the database. It does not close the database.
func (m *MachineIDs) Close() error { return m.close() }

// promise returns the current promise of id.
func (m *MachineIDs) promise(ctx context.Context, id int) (promise, error) {
	p := promise{id: id}
	err := m.db.QueryRowContext(ctx, `SELECT holder, until_ms FROM kgs_machines WHERE id = $1`, id).Scan(&p.holder, &p.until)
	if err != nil {
		return promise{}, fmt.Errorf("machine ids: %w", err)
	}
	return p, nil
}

// acquire records p for a machine id whose promise has ended at time now, and returns p with
// that id. It takes the given id or, for a negative id, the id that has been free for the
// longest time. It fails with errNoMachine if there is none.
func (m *MachineIDs) acquire(ctx context.Context, id int, now int64, p promise) (promise, error) {
	for lost := 0; ; lost++ { // skips one row per lost race, because other processes try the same ids
		err := m.db.QueryRowContext(ctx, `SELECT id FROM kgs_machines
			WHERE until_ms <= $1 AND ($2 < 0 OR id = $2) ORDER BY until_ms, id LIMIT 1 OFFSET $3`, now, id, lost).Scan(&p.id)
		if errors.Is(err, sql.ErrNoRows) {
			at := time.UnixMilli(snowflakeEpoch + now).UTC().Format(time.RFC3339)
			return promise{}, fmt.Errorf("%w at %s by the clock of this machine", errNoMachine, at)
		}
		if err != nil {
			return promise{}, fmt.Errorf("machine ids: acquire: %w", err)
		}
		won, err := m.change(ctx, `UPDATE kgs_machines SET holder = $1, until_ms = $2 WHERE id = $3 AND until_ms <= $4`,
			p.holder, p.until, p.id, now)
		if err != nil || won {
			return p, err
		}
	}
}

// extend moves the end of a promise to a later time, never to an earlier one. It fails with
// ErrFenced if another holder has the id.
func (m *MachineIDs) extend(ctx context.Context, p promise) error {
	held, err := m.change(ctx, `UPDATE kgs_machines SET until_ms = CASE WHEN until_ms < $1 THEN $1 ELSE until_ms END
		WHERE id = $2 AND holder = $3`, p.until, p.id, p.holder)
	if err == nil && !held {
		return fmt.Errorf("machine id %d: %w", p.id, kgs.ErrFenced)
	}
	return err
}

// giveBack ends a promise early. Its holder has made no number with a time at or after the new
// end, and must not make one.
func (m *MachineIDs) giveBack(ctx context.Context, p promise) error {
	_, err := m.change(ctx, `UPDATE kgs_machines SET holder = '', until_ms = $1 WHERE id = $2 AND holder = $3`,
		p.until, p.id, p.holder)
	return err
}

// change reports whether the statement's condition held for its row.
func (m *MachineIDs) change(ctx context.Context, query string, args ...any) (bool, error) {
	result, err := m.db.ExecContext(ctx, query, args...)
	if err != nil {
		return false, fmt.Errorf("machine ids: %w", err)
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}
