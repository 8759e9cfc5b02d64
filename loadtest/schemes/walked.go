package schemes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"keypool/loadtest/testbed"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// How each scheme remembers what it has given out, and what it has not: the only place that
// knows the tables and keys of schemes.

// nothing is how much a scheme remembers that draws by chance.
func nothing(context.Context, *running, int64) error { return nil }

const setLedger = `UPDATE kgs_spaces SET next = $1 WHERE length = 3`

func ledgerAt(ctx context.Context, r *running, n int64) error {
	return statement(ctx, r.links, setLedger, n)
}

func serviceAt(ctx context.Context, r *running, n int64) error {
	return statement(ctx, r.keys, setLedger, n)
}

// usedKeys takes all links for keys that were used.
func usedKeys(ctx context.Context, r *running, _ int64) error {
	return statement(ctx, r.links, `INSERT INTO used_keys (id, key) SELECT 0, code FROM links`)
}

// counterAt sets the counter in Redis, which has the name of the ledger.
func counterAt(ctx context.Context, r *running, n int64) (err error) {
	var name string
	err = testbed.Query(ctx, r.links, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT name FROM kgs_ledger`).Scan(&name)
	})
	if err != nil {
		return err
	}
	opts, err := redis.ParseURL(r.redis)
	if err != nil {
		return err
	}
	client := redis.NewClient(opts)
	defer func() { err = errors.Join(err, client.Close()) }()
	return client.Set(ctx, "keypool:{"+name+"}:counter", n, 0).Err()
}

// ticketsAt sets the sequences so that the next numbers are n or more.
func ticketsAt(ctx context.Context, r *running, n int64) error {
	n += n % 2
	return errors.Join(
		statement(ctx, r.tickets[0], `SELECT setval('kgs_tickets_odd', $1)`, n+1),
		statement(ctx, r.tickets[1], `SELECT setval('kgs_tickets_even', $1)`, n+2),
	)
}

func statement(ctx context.Context, url, text string, args ...any) error {
	return testbed.Query(ctx, url, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, text, args...)
		return err
	})
}

// abandoned is what the audit says: what is given up already, and what is in the hands of
// those that crashed, whom the ledger does not take for dead at once.
func abandoned(ctx context.Context, g *stage, r *running) (n int64, err error) {
	accounts, err := g.bed.Audit(ctx, r.env...)
	for _, numbers := range accounts.Abandoned {
		n += numbers
	}
	return n + accounts.InBatches, err
}

func everyNumber(ctx context.Context, _ *stage, r *running) (int64, error) {
	return numbersSkipped(ctx, r, 1)
}

func oddAndEven(ctx context.Context, _ *stage, r *running) (int64, error) {
	return numbersSkipped(ctx, r, 2)
}

func numbersSkipped(ctx context.Context, r *running, step int64) (int64, error) {
	var codes []string
	err := testbed.Query(ctx, r.links, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT code FROM links`)
		if err != nil {
			return err
		}
		codes, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, err
	}
	numbers := make([]int64, len(codes))
	for i, code := range codes {
		n, ok := base62.number(code)
		if !ok || !n.IsInt64() {
			return 0, fmt.Errorf("%s is no number", code)
		}
		numbers[i] = n.Int64()
	}
	return skipped(numbers, step), nil
}

// skipped is how many numbers there are between the least and the greatest of those that
// have the same remainder of a division by step, and are not among them.
func skipped(numbers []int64, step int64) (n int64) {
	for remainder := range step {
		var some []int64
		for _, number := range numbers {
			if number%step == remainder {
				some = append(some, number)
			}
		}
		if len(some) > 0 {
			n += (slices.Max(some)-slices.Min(some))/step + 1 - int64(len(some))
		}
	}
	return n
}

// keysGone counts keys that were used, as the pool has it, and are no link.
func keysGone(ctx context.Context, _ *stage, r *running) (n int64, err error) {
	err = testbed.Query(ctx, r.links, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM used_keys WHERE key NOT IN (SELECT code FROM links)`).Scan(&n)
	})
	return n, err
}

// keysReserved adds those that are reserved and no link. When the server has handed back its
// own, these are what the batches of the dead were left with.
func keysReserved(ctx context.Context, g *stage, r *running) (n int64, err error) {
	gone, err := keysGone(ctx, g, r)
	if err != nil {
		return 0, err
	}
	err = testbed.Query(ctx, r.links, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM available_keys WHERE is_reserved AND key NOT IN (SELECT code FROM links)`).Scan(&n)
	})
	return gone + n, err
}
