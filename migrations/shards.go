package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrNoCitus means that the database cannot distribute tables.
var ErrNoCitus = errors.New("the extension citus is not installed in the database; distributed tables need it: " +
	"run CREATE EXTENSION citus on the coordinator and on each worker")

// ErrNoNodes means that the Citus cluster has no node that may hold rows of distributed tables.
var ErrNoNodes = errors.New("the Citus cluster has no node for shards: add workers with citus_add_node on the coordinator, " +
	"or let the coordinator have shards with citus_set_node_property")

// ErrCitusWorker means that the database is on a worker of a Citus cluster. A program must connect to the coordinator.
var ErrCitusWorker = errors.New("the database is on a worker of a Citus cluster")

// table is a table that [Distribute] spreads over the nodes of a cluster.
type table struct {
	name      string
	column    string // distribution column: its value decides on which node a row is; "" if each node has a copy of the table
	companion string // a table that is spread in the same way; "" if there is none
}

// distributed lists the tables that [Distribute] spreads. A row of a table and a row of its companion are on the same
// node if their distribution columns have the same value. Tables whose distribution columns have different types cannot be
// companions.
//
// All other tables stay on the coordinator: the ledger, tokens and pools.
func distributed() []table {
	return []table{
		{"link_order", "", ""}, // each insert of links reads this table
		{"ranked_links", "rank", ""},
		{"unranked_links", "code", ""},
		{"visits", "code", "unranked_links"},
		{"visit_facets", "code", "unranked_links"},
		{"idempotency_keys", "key", "unranked_links"},
		// One transaction of a flush of visits changes visit_writers and visits. If only the coordinator had
		// visit_writers, a crash of the coordinator could leave one of the two changes committed and the other not.
		{"visit_writers", "id", ""},
	}
}

// distribution returns the statement that distributes the table in the given number of shards, and its arguments.
func (t table) distribution(shards int) (statement string, args []any) {
	switch {
	case t.column == "":
		return `SELECT create_reference_table($1)`, []any{t.name}
	case t.companion == "":
		return `SELECT create_distributed_table($1, $2, colocate_with => 'none', shard_count => $3)`, []any{t.name, t.column, shards}
	}
	return `SELECT create_distributed_table($1, $2, colocate_with => $3)`, []any{t.name, t.column, t.companion}
}

// CheckCitus fails with ErrNoCitus if db cannot distribute tables, with ErrCitusWorker if db leads to a worker, and
// with ErrNoNodes if the cluster has no node for the tables. It changes nothing.
func CheckCitus(ctx context.Context, db *sql.DB) error {
	if err := checkNotWorker(ctx, db); err != nil {
		return err
	}
	var found bool
	err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')`).Scan(&found)
	if err == nil && !found {
		return ErrNoCitus
	}
	if err == nil {
		err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_dist_node WHERE shouldhaveshards AND isactive AND noderole = 'primary')`).Scan(&found)
	}
	if err != nil {
		return fmt.Errorf("look for Citus: %w", err)
	}
	if !found {
		return ErrNoNodes
	}
	return nil
}

// checkNotWorker fails with ErrCitusWorker if db leads to a worker of a Citus cluster.
func checkNotWorker(ctx context.Context, db *sql.DB) error {
	var citus, worker bool
	err := db.QueryRowContext(ctx, `SELECT to_regclass('pg_catalog.pg_dist_local_group') IS NOT NULL`).Scan(&citus)
	if err == nil && citus {
		// Citus gives the coordinator the group 0.
		err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_local_group WHERE groupid <> 0)`).Scan(&worker)
	}
	switch {
	case err != nil:
		return fmt.Errorf("look up the role of the server in a Citus cluster: %w", err)
	case worker:
		return ErrCitusWorker
	}
	return nil
}

// Workers returns the number of workers of a Citus cluster. The parameter db must lead to the coordinator of this
// cluster.
func Workers(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM pg_dist_node WHERE groupid <> 0 AND noderole = 'primary'`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the workers of the Citus cluster: %w", err)
	}
	return n, nil
}

// Distribute spreads the tables of links, and the tables of everything that belongs to a link, over the nodes of a
// Citus cluster. Distribute creates the given number of shards for ranked_links, unranked_links and visit_writers.
// The shards of a companion of unranked_links are on the same nodes as the shards of unranked_links. Each node gets a
// copy of link_order. Distribute moves the rows that exist. It skips tables that are already distributed, and returns
// how many tables it distributed. db must lead to the coordinator, and the database must have the schema of this
// program. Distribute is one transaction. Servers can read links during this transaction, but cannot create links.
// The caller must use [Exclusive].
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
	// By default, Citus creates shards over several connections to a node. None of these connections sees the
	// uncommitted rows of the other connections.
	if _, err := tx.ExecContext(ctx, `SET LOCAL citus.multi_shard_modify_mode TO 'sequential'`); err != nil {
		return 0, err
	}
	for _, t := range distributed() {
		done, err := isDistributed(ctx, tx, t.name)
		if err != nil {
			return n, err
		}
		if done {
			continue
		}
		statement, args := t.distribution(shards)
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return n, fmt.Errorf("the table %s: %w", t.name, err)
		}
		if _, err := tx.ExecContext(ctx, `SELECT truncate_local_data_after_distributing_table($1::text::regclass)`, t.name); err != nil {
			return n, fmt.Errorf("remove the local copy of the rows of the table %s: %w", t.name, err)
		}
		n++
	}
	return n, nil
}

func isDistributed(ctx context.Context, tx *sql.Tx, table string) (done bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = $1::text::regclass)`, table).Scan(&done)
	return done, err
}
