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

// errNoMachine says that each machine id that would do is promised to somebody.
var errNoMachine = errors.New("no machine id is free")

// promise is that of holder to make numbers of machine id with times before until only, in
// milliseconds since snowflakeEpoch.
type promise struct {
	id     int
	holder string // "" for nobody
	until  int64
}

// MachineIDs is the table of promises. Each change is one statement with a condition, so
// among many who try at once one succeeds, and one that comes late, when its sender has
// given it up already, changes nothing that others build on.
type MachineIDs struct {
	db    *sql.DB
	close func() error
}

// NewPostgresMachineIDs uses connections of pool, which stays the caller's to close, after
// the MachineIDs.
func NewPostgresMachineIDs(pool *pgxpool.Pool) *MachineIDs {
	db := stdlib.OpenDBFromPool(pool)
	return &MachineIDs{db, db.Close}
}

// NewSQLiteMachineIDs uses db, which stays the caller's to close.
func NewSQLiteMachineIDs(db *sqlite.DB) *MachineIDs {
	return &MachineIDs{db.Write, func() error { return nil }}
}

// Close ends the use of the database, which itself stays open.
func (m *MachineIDs) Close() error { return m.close() }

// promise is what is promised of id at present.
func (m *MachineIDs) promise(ctx context.Context, id int) (promise, error) {
	p := promise{id: id}
	err := m.db.QueryRowContext(ctx, `SELECT holder, until_ms FROM kgs_machines WHERE id = $1`, id).Scan(&p.holder, &p.until)
	if err != nil {
		return promise{}, fmt.Errorf("machine ids: %w", err)
	}
	return p, nil
}

// acquire records the promise p of an id that is free from now on, and gives it with that id:
// the given one or, for a negative one, that which is free for longest. errNoMachine when
// there is none.
func (m *MachineIDs) acquire(ctx context.Context, id int, now int64, p promise) (promise, error) {
	for lost := 0; ; lost++ { // whoever loses one looks further down: others are at it too
		err := m.db.QueryRowContext(ctx, `SELECT id FROM kgs_machines
			WHERE until_ms <= $1 AND ($2 < 0 OR id = $2) ORDER BY until_ms, id LIMIT 1 OFFSET $3`, now, id, lost).Scan(&p.id)
		if errors.Is(err, sql.ErrNoRows) {
			at := time.UnixMilli(snowflakeEpoch + now).UTC().Format(time.RFC3339)
			return promise{}, fmt.Errorf("%w at %s by the clock of this machine", errNoMachine, at)
		}
		if err != nil {
			return promise{}, fmt.Errorf("machine ids: lease: %w", err)
		}
		won, err := m.change(ctx, `UPDATE kgs_machines SET holder = $1, until_ms = $2 WHERE id = $3 AND until_ms <= $4`,
			p.holder, p.until, p.id, now)
		if err != nil || won {
			return p, err
		}
	}
}

// extend moves the end of a promise, which never comes nearer by it. ErrFenced when
// somebody else has the id by now.
func (m *MachineIDs) extend(ctx context.Context, p promise) error {
	held, err := m.change(ctx, `UPDATE kgs_machines SET until_ms = CASE WHEN until_ms < $1 THEN $1 ELSE until_ms END
		WHERE id = $2 AND holder = $3`, p.until, p.id, p.holder)
	if err == nil && !held {
		return fmt.Errorf("machine id %d: %w", p.id, kgs.ErrFenced)
	}
	return err
}

// giveBack ends a promise early, and for good: its holder has made no number from then on.
func (m *MachineIDs) giveBack(ctx context.Context, p promise) error {
	_, err := m.change(ctx, `UPDATE kgs_machines SET holder = '', until_ms = $1 WHERE id = $2 AND holder = $3`,
		p.until, p.id, p.holder)
	return err
}

// change reports whether the statement found its row as it wanted it.
func (m *MachineIDs) change(ctx context.Context, query string, args ...any) (bool, error) {
	result, err := m.db.ExecContext(ctx, query, args...)
	if err != nil {
		return false, fmt.Errorf("machine ids: %w", err)
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}
