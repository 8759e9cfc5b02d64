package schemes

import (
	"context"
	"fmt"
	"time"

	"keypool/loadtest/testbed"

	"github.com/jackc/pgx/v5"
)

// templates makes a database for each share, in which the first codes of three digits are
// links, in order. Their ledger does not permute: whether it does is nothing to attempts,
// and so the codes of its numbers are known here.
func (e *experiment) templates(ctx context.Context) (names []string, err error) {
	e.enter("filling the space")
	template := ""
	filled := int64(0)
	for i, share := range spaceShares() {
		name, url, err := e.stage.database(ctx, e.stage.postgres.URL, template)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			err = e.schema(ctx, url, "KGS_PERMUTE=false")
		}
		n := int64(share * spaceSize)
		if err == nil && n > filled {
			err = fill(ctx, url, filled, n)
		}
		if err != nil {
			return nil, err
		}
		template, filled = name, n
		names = append(names, name)
	}
	return names, nil
}

// schema lets a server make the tables in a database, and returns when nobody is left there.
func (e *experiment) schema(ctx context.Context, url string, settings ...string) error {
	server, err := e.stage.bed.Server(ctx, append([]string{"DATABASE_URL=" + url, "KEY_SOURCE=random"}, settings...)...)
	if err != nil {
		return err
	}
	if err := server.Stop(); err != nil {
		return err
	}
	return testbed.Until(ctx, 20*time.Millisecond, 10*time.Second, func(ctx context.Context) (done bool, err error) {
		var others int
		err = testbed.Query(ctx, url, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&others)
		})
		return others == 0, err
	})
}

// fill makes links of the codes of the numbers from lo to below hi.
func fill(ctx context.Context, url string, lo, hi int64) error {
	const digit = `substr($3, (n / %d %% 62)::int + 1, 1)`
	code := fmt.Sprintf(digit+" || "+digit+" || "+digit, 62*62, 62, 1)
	return statement(ctx, url, `INSERT INTO links (code, url, source, created_at)
		SELECT `+code+`, 'https://filler.example/', 'alias', now() FROM generate_series($1::bigint, $2::bigint - 1) AS n`, lo, hi, string(base62))
}
