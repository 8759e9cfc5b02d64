package audit

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/kgs"
)

// PostgresPoolAccounts counts the keys in the tables of a PostgreSQL pool. It also compares the
// tables with the links.
type PostgresPoolAccounts struct {
	Available  int64 `json:"available"`
	Reserved   int64 `json:"reserved"`
	Used       int64 `json:"used"`
	UsedLinked int64 `json:"used_and_linked"`
	Unlinked   int64 `json:"used_without_link"` // used keys without a link: in a batch, lost, or left by a crash
	Unsettled  int64 `json:"linked_unsettled"`  // linked keys that are still reserved, or that became available because their holder was dead
	DrawnAgain int64 `json:"drawn_again"`       // keys that are available although they were used; Take will remove them
}

// lookUpAtOnce is the number of links that one statement looks up.
const lookUpAtOnce = 10_000

const (
	countPool = `SELECT (SELECT count(*) FROM available_keys WHERE NOT is_reserved),
		(SELECT count(*) FROM available_keys WHERE is_reserved),
		(SELECT count(*) FROM used_keys),
		(SELECT count(*) FROM available_keys JOIN used_keys USING (key))`
	countUsed = `SELECT count(*) FROM used_keys WHERE key = ANY ($1::text[])`
	// findUnused returns the keys in $1 that are not in used_keys. For each key it returns whether
	// the key is available, and whether the key was ever reserved.
	findUnused = `SELECT linked.key, a.key IS NOT NULL, a.reserved_at IS NOT NULL
		FROM unnest($1::text[]) AS linked (key) LEFT JOIN available_keys a USING (key)
		WHERE (SELECT true FROM used_keys WHERE used_keys.key = linked.key) IS NULL`
)

// AddPostgresPool adds the accounts and the faults of the pool in db. It does nothing if the
// pool's tables are empty and no link has a key of the pool. Servers and workers may keep
// running, because a key has a row in the pool before it has a link, and AddPostgresPool reads the
// links before the pool. After a rollback of the database, a key that a process held in memory can
// have a link but no row. Such a key is a fault.
func (a *Accounts) AddPostgresPool(ctx context.Context, db *pgxpool.Pool, links iter.Seq2[Linked, error]) error {
	var exists bool
	err := db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM available_keys) OR EXISTS (SELECT FROM used_keys)`).Scan(&exists)
	if err != nil {
		return fmt.Errorf("audit the pool: %w", err)
	}
	if !exists && a.Links[kgs.SourcePostgresPool] == 0 {
		return nil
	}
	a.PostgresPool = &PostgresPoolAccounts{}
	if err := a.addPostgresLinks(ctx, db, links); err != nil {
		return fmt.Errorf("audit the pool: %w", err)
	}
	p := a.PostgresPool
	if err := db.QueryRow(ctx, countPool).Scan(&p.Available, &p.Reserved, &p.Used, &p.DrawnAgain); err != nil {
		return fmt.Errorf("audit the pool: %w", err)
	}
	p.Unlinked = p.Used - p.UsedLinked
	return nil
}

// addPostgresLinks looks up the links in blocks, so that it never holds all links in memory.
func (a *Accounts) addPostgresLinks(ctx context.Context, db *pgxpool.Pool, links iter.Seq2[Linked, error]) error {
	var codes, poolCodes []string
	for l, err := range links {
		if err != nil {
			return err
		}
		codes = append(codes, l.Code)
		if l.Source == kgs.SourcePostgresPool {
			poolCodes = append(poolCodes, l.Code)
		}
		if len(codes) < lookUpAtOnce {
			continue
		}
		if err := a.lookUp(ctx, db, codes, poolCodes); err != nil {
			return err
		}
		codes, poolCodes = codes[:0], poolCodes[:0]
	}
	return a.lookUp(ctx, db, codes, poolCodes)
}

// lookUp counts how many codes are in used_keys. It finds the faults among poolCodes, which are the
// codes of links that were made with keys of the pool.
func (a *Accounts) lookUp(ctx context.Context, db *pgxpool.Pool, codes, poolCodes []string) error {
	var used int64
	if err := db.QueryRow(ctx, countUsed, codes).Scan(&used); err != nil {
		return err
	}
	a.PostgresPool.UsedLinked += used
	rows, err := db.Query(ctx, findUnused, poolCodes)
	if err != nil {
		return err
	}
	var code string
	var available, reserved bool
	_, err = pgx.ForEachRow(rows, []any{&code, &available, &reserved}, func() error {
		switch {
		case reserved:
			a.PostgresPool.Unsettled++
		case available:
			a.addFaults(FaultReused, 1, code)
		default:
			a.addFaults(FaultUnrecorded, 1, code)
		}
		return nil
	})
	return err
}
