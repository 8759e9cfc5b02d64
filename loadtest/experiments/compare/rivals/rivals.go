//go:build rivals

// Package app is compiled as a part of cmd/internal/app, in the programs that compare/keysources
// builds. It contains two simple key sources, which take one prepared key for each creation. The key
// source locked-table takes the key from a table under one lock. The key source redis-set takes the
// key from a set in Redis.
package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

const (
	rivalKeys    = 300_000 // keys that are prepared at the first start
	rivalTimeout = 2 * time.Second
	rivalAtOnce  = 10_000 // keys in one SADD
)

// prepared returns the keys. They are permuted numbers, like the keys of the pools, but the ledger has no record of them.
func prepared(ch *Chain) []string {
	return ch.Space.Codes(codespace.Range{Length: ch.CodeLength, Lo: 0, Hi: rivalKeys})
}

// lockedTable takes each key in a transaction. The transaction first locks a row that every other taker locks too.
type lockedTable struct{ db *pgxpool.Pool }

const createLockedTable = `CREATE TABLE IF NOT EXISTS rival_lock (id int PRIMARY KEY);
	CREATE TABLE IF NOT EXISTS rival_keys (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL UNIQUE);`

func openLockedTable(ch *Chain, ctx context.Context) error {
	db, err := ch.OpenPool(ctx, ch.Database.Postgres)
	if err != nil {
		return err
	}
	if _, err := db.Exec(ctx, createLockedTable); err != nil {
		return err
	}
	added, err := db.Exec(ctx, `INSERT INTO rival_lock VALUES (1) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	if added.RowsAffected() > 0 {
		if _, err := db.Exec(ctx, `INSERT INTO rival_keys (key) SELECT unnest($1::text[])`, prepared(ch)); err != nil {
			return err
		}
	}
	ch.openKeys(lockedTable{db})
	return nil
}

// Next waits for the lock for at most two seconds.
func (s lockedTable) Next(ctx context.Context, _ string, _ int) (key kgs.Key, err error) {
	ctx, cancel := context.WithTimeout(ctx, rivalTimeout)
	defer cancel()
	key.Source = "locked-table"
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT id FROM rival_lock WHERE id = 1 FOR UPDATE`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `DELETE FROM rival_keys WHERE id = (SELECT min(id) FROM rival_keys) RETURNING key`).Scan(&key.Code)
	})
	if err != nil {
		return kgs.Key{}, fmt.Errorf("%w: %w", kgs.ErrNoKeys, err)
	}
	return key, nil
}

// redisSet takes a key with SPOP.
type redisSet struct {
	client redis.UniversalClient
	name   string
}

func openRedisSet(ch *Chain, ctx context.Context) error {
	client, err := ch.openRedis()
	if err != nil {
		return err
	}
	s := redisSet{client, "rival:{" + ch.ledger.Name() + "}"}
	first, err := client.SetNX(ctx, s.name+":filled", 1, 0).Result()
	if err != nil {
		return err
	}
	if keys := prepared(ch); first {
		for at := 0; at < len(keys); at += rivalAtOnce {
			if err := client.SAdd(ctx, s.name, keys[at:at+rivalAtOnce]).Err(); err != nil {
				return err
			}
		}
	}
	ch.openKeys(s)
	return nil
}

// Next waits for Redis for at most two seconds.
func (s redisSet) Next(ctx context.Context, _ string, _ int) (kgs.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, rivalTimeout)
	defer cancel()
	code, err := s.client.SPop(ctx, s.name).Result()
	if errors.Is(err, redis.Nil) {
		err = kgs.ErrEmpty
	}
	if err != nil {
		return kgs.Key{}, fmt.Errorf("%w: %w", kgs.ErrNoKeys, err)
	}
	return kgs.Key{Code: code, Source: "redis-set"}, nil
}
