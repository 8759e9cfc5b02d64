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

// errNoMachine means that every suitable machine id has a promise that has not ended yet.
var errNoMachine = errors.New("no machine id is free")

// promise is the permission of a holder to make numbers with one machine id. The times of these numbers must be before
// the field until.
type promise struct {
	id     int
	holder string // name of the holder; "" if there is none
	until  int64  // end of the promise, in milliseconds since snowflakeEpoch
}

// MachineIDs is the table of promises. Each change is one statement with a condition. If several
// processes change the same machine id at once, the condition is true for only one of the changes.
// A statement that reaches the database late does not affect the promises of other holders.
type MachineIDs struct {
	db    *sql.DB
	close func() error
}

// NewPostgresMachineIDs uses connections of pool. The caller closes the MachineIDs first, and then
// the pool.
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

// Machine is what the table records about a machine id.
type Machine struct {
	Holder string    // the process that acquired the id last; empty if it gave the id back, or if the id was never used
	Until  time.Time // end of the last promise for the id; zero if the id was never used
}

// Machine returns the record of a machine id from 0 to 1023.
func (m *MachineIDs) Machine(ctx context.Context, id int) (Machine, error) {
	p, err := m.promise(ctx, id)
	if err != nil || p.until == 0 {
		return Machine{}, err
	}
	return Machine{Holder: p.holder, Until: time.UnixMilli(snowflakeEpoch + p.until).UTC()}, nil
}

// acquire records the promise p for a free machine id, and returns p with this id. A machine id is free if its last
// promise ended at the time now or earlier. If the parameter id is not negative, acquire uses only this id. Otherwise it uses
// the id that has been free for the longest time. If no such id is free, acquire fails with errNoMachine.
func (m *MachineIDs) acquire(ctx context.Context, id int, now int64, p promise) (promise, error) {
	for lost := 0; ; { // lost is how many rows to skip: one for each id that another process acquired first
		err := m.db.QueryRowContext(ctx, `SELECT id FROM kgs_machines
			WHERE until_ms <= $1 AND ($2 < 0 OR id = $2) ORDER BY until_ms, id LIMIT 1 OFFSET $3`, now, id, lost).Scan(&p.id)
		if errors.Is(err, sql.ErrNoRows) && lost > 0 {
			lost = 0 // the acquired ids no longer match the query, so the offset skipped free ids
			continue
		}
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
		lost++
	}
}

// extend moves the end of a promise to a later time, never to an earlier time. It fails with
// ErrFenced if another holder has the id.
func (m *MachineIDs) extend(ctx context.Context, p promise) error {
	held, err := m.change(ctx, `UPDATE kgs_machines SET until_ms = CASE WHEN until_ms < $1 THEN $1 ELSE until_ms END
		WHERE id = $2 AND holder = $3`, p.until, p.id, p.holder)
	if err == nil && !held {
		return fmt.Errorf("machine id %d: %w", p.id, kgs.ErrFenced)
	}
	return err
}

// giveBack ends a promise early, at p.until. The holder must not have made numbers with times at or
// after this end, and must not make such numbers later.
func (m *MachineIDs) giveBack(ctx context.Context, p promise) error {
	_, err := m.change(ctx, `UPDATE kgs_machines SET holder = '', until_ms = $1 WHERE id = $2 AND holder = $3`,
		p.until, p.id, p.holder)
	return err
}

// change runs a statement and reports whether the condition of the statement was true. The condition was
// true if the statement changed a row.
func (m *MachineIDs) change(ctx context.Context, query string, args ...any) (bool, error) {
	result, err := m.db.ExecContext(ctx, query, args...)
	if err != nil {
		return false, fmt.Errorf("machine ids: %w", err)
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}
