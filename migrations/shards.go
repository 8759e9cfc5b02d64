package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrNoCitus means that the database cannot distribute tables.
var ErrNoCitus = errors.New("the database has no Citus: distributed tables need the extension citus, " +
	"which CREATE EXTENSION citus installs on the coordinator and on each worker")

// distributed lists the tables that [Distribute] spreads over the nodes of a cluster, and the column by which it spreads
// each. The rows of tables with the same companion and an equal value of this column are on the same node. Tables with
// columns of different types cannot be companions.
//
// All other tables stay on the coordinator: the ledger, tokens and pools.
func distributed() []struct{ table, column, companion string } {
	return []struct{ table, column, companion string }{
		{"ranked_links", "rank", "none"},
		{"unranked_links", "code", "none"},
		{"visits", "code", "unranked_links"},
		{"visit_facets", "code", "unranked_links"},
		{"idempotency_keys", "key", "unranked_links"},
		// A part of a flush of visits changes visit_writers and visits. If visit_writers were local, a crash of the
		// coordinator could commit only one of the two.
		{"visit_writers", "id", "none"},
	}
}

// everywhere is the table of which each node has a copy, because each insert of links reads it.
const everywhere = "link_order"

// CheckCitus fails with ErrNoCitus if db cannot distribute tables. It changes nothing.
func CheckCitus(ctx context.Context, db *sql.DB) error {
	var found bool
	err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')`).Scan(&found)
	if err != nil {
		return fmt.Errorf("look for Citus: %w", err)
	}
	if !found {
		return ErrNoCitus
	}
	return nil
}

// Distribute spreads the tables of links, and everything that is keyed by a link, over the nodes of a Citus cluster, in the
// given number of shards for each table. It moves the rows that exist. The database must have the schema of this program, and
// db must lead to the coordinator. Distribute leaves tables that are distributed already as they are, and returns how many tables it
// distributed. It is one transaction. Until it ends, servers can read links and cannot create them. The caller must use
// [Exclusive].
func Distribute(ctx context.Context, db *sql.DB, shards int) (n int, err error) {
	if err := CheckCitus(ctx, db); err != nil {
		return 0, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("distribute the tables of links: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit
	n, err = distribute(ctx, tx, shards)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return 0, fmt.Errorf("distribute the tables of links: %w", err)
	}
	return n, nil
}

func distribute(ctx context.Context, tx *sql.Tx, shards int) (n int, err error) {
	// By default, Citus creates shards over several connections to a node, which cannot see the rows of each other.
	if _, err := tx.ExecContext(ctx, `SET LOCAL citus.multi_shard_modify_mode TO 'sequential'`); err != nil {
		return 0, err
	}
	for _, d := range append([]struct{ table, column, companion string }{{table: everywhere}}, distributed()...) {
		done, err := isDistributed(ctx, tx, d.table)
		if err != nil {
			return n, err
		}
		if done {
			continue
		}
		statement, args := `SELECT create_reference_table($1)`, []any{d.table}
		switch d.companion {
		case "":
		case "none":
			statement, args = `SELECT create_distributed_table($1, $2, colocate_with => 'none', shard_count => $3)`, []any{d.table, d.column, shards}
		default:
			statement, args = `SELECT create_distributed_table($1, $2, colocate_with => $3)`, []any{d.table, d.column, d.companion}
		}
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return n, fmt.Errorf("the table %s: %w", d.table, err)
		}
		if _, err := tx.ExecContext(ctx, `SELECT truncate_local_data_after_distributing_table($1::text::regclass)`, d.table); err != nil {
			return n, fmt.Errorf("remove the former rows of the table %s: %w", d.table, err)
		}
		n++
	}
	return n, nil
}

func isDistributed(ctx context.Context, tx *sql.Tx, table string) (done bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = $1::text::regclass)`, table).Scan(&done)
	return done, err
}
