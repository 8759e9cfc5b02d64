package app

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// setKeepalives makes PostgreSQL end a connection whose client has not answered for 10 s + 3 * 5 s = 25 s. Without these settings,
// PostgreSQL keeps a connection by default for two hours after a network partition has broken it. Such connections count towards
// max_connections, so PostgreSQL may refuse new connections of the same client. (PostgreSQL manual, 19.3.2.)
const setKeepalives = `SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; SET tcp_user_timeout = 25000`

// limitFirst limits the time of the first statements of a connection. pgxpool itself sets no limit, because a connection
// attempt continues when the statement that needs the connection has been canceled. If a network partition began during the
// first statements, the connection would occupy its place in the pool until the kernel gives up, about 15 minutes later.
func limitFirst(ctx context.Context, cfg *pgx.ConnConfig) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cfg.ConnectTimeout)
}

// beginConnections adds the keepalives to the first statements of each new connection, and limits the time of these statements.
// It sets the keepalives with a statement and not with connection parameters, because a connection pooler refuses parameters
// that it does not know. If a server refuses the settings, the connection works without them.
func beginConnections(cfg *pgxpool.Config) {
	after := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := limitFirst(ctx, cfg.ConnConfig)
		defer cancel()
		if after != nil {
			if err := after(ctx, conn); err != nil {
				return err
			}
		}
		_, err := conn.PgConn().Exec(ctx, setKeepalives).ReadAll()
		if conn.IsClosed() {
			return err
		}
		return nil
	}
}
