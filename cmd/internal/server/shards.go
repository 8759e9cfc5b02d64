package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/client_golang/prometheus"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/kgs"
	"keypool/migrations"
	"keypool/shortener"
	"keypool/shortener/citusstore"
)

// migrateFlags are the flags of the command migrate.
type migrateFlags struct {
	Shards int `name:"shards" placeholder:"N" min:"1" max:"1024" help:"Distribute the tables of links over the nodes of a Citus cluster, in N shards for each table, after the migration. DATABASE_URL must lead to the coordinator. Rows that exist are moved. Stop all servers first. The command may be repeated."`
}

// errNoReadURLs reports that DATABASE_READ_URLS is set although the links are on a Citus cluster.
var errNoReadURLs = errors.New("DATABASE_READ_URLS: the links are distributed over a Citus cluster, whose nodes answer the look-ups; remove this setting")

// errSocket reports that DATABASE_URL leads to a Unix socket although the links are on a Citus cluster. sslmode has no effect on a
// socket, so the settings would not say whether the connections to the nodes use TLS.
var errSocket = errors.New("DATABASE_URL: the first host is a Unix socket, but the links are distributed over a Citus cluster, whose nodes the server reaches over TCP; name the coordinator by its host name or address, and set sslmode")

// checkShards returns an error if the tables cannot be distributed as the flags say. It changes nothing.
func checkShards(ctx context.Context, s config.Server, f migrateFlags) error {
	if f.Shards == 0 {
		return nil
	}
	if s.Database.Postgres == nil {
		return migrations.ErrNoCitus
	}
	ctx, cancel := context.WithTimeout(ctx, program.StartTimeout)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, s.Database.LedgerPool())
	if err != nil {
		return err
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	return errors.Join(migrations.CheckCitus(ctx, db), db.Close())
}

// distribute distributes the tables of links over the nodes of the cluster.
func distribute(ctx context.Context, c *app.Core, shards int) error {
	connections, err := c.OpenPool(ctx, c.Database.LedgerPool())
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(connections)
	var n int
	err = migrations.Exclusive(ctx, db, migrations.PostgreSQL, func() error {
		n, err = migrations.Distribute(ctx, db, shards)
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if n == 0 {
		c.Log.Info("the tables of links are distributed already, and their number of shards stays as it is")
	} else {
		c.Log.Info("distributed the tables of links", slog.Int("tables", n), slog.Int("shards", shards))
	}
	return nil
}

// openNodes is like connectNodes, and also registers a metric of the nodes.
func openNodes(ctx context.Context, p *program.Program, c *app.Core, store linkStore, order shortener.Order, connections *pgxpool.Pool) (linkStore, shortener.Placement, error) {
	store, placement, err := connectNodes(ctx, p, c, store, order, connections)
	if err == nil {
		reportNodes(c.Registry, placement)
	}
	return store, placement, err
}

// connectNodes returns a store that knows on which node of a Citus cluster each link is, and the placement of the links for the
// service. If the tables of links are not distributed, it returns store and nil. The stop closes the connections to the nodes after
// the service of the links.
func connectNodes(ctx context.Context, p *program.Program, c *app.Core, store linkStore, order shortener.Order, connections *pgxpool.Pool) (linkStore, shortener.Placement, error) {
	if connections == nil {
		return store, nil, nil
	}
	if distributed, err := citusstore.IsDistributed(ctx, connections); err != nil || !distributed {
		return store, nil, err
	}
	if err := checkHost(c.Database.Postgres); err != nil {
		return nil, nil, err
	}
	nodes, err := citusstore.New(ctx, connections, order, nodeOpener(c), c.Log)
	if err != nil {
		return nil, nil, err
	}
	c.OnStop("nodes with links", func(ctx context.Context) error {
		return program.WaitFor(ctx, func() error { nodes.Close(); return nil })
	})
	readings := kgs.NewFailureLog(c.Log, "read where the links live")
	p.Background("places of links", p.Fail, func(ctx context.Context) error { return nodes.Watch(ctx, readings.Note) })
	return nodes, nodes, nil
}

// checkHost returns errSocket if the first host of DATABASE_URL is a Unix socket.
func checkHost(database *pgxpool.Config) error {
	if network, _ := pgconn.NetworkAddress(database.ConnConfig.Host, database.ConnConfig.Port); network == "unix" {
		return errSocket
	}
	return nil
}

// nodeOpener returns a function that opens connections to a node of the cluster, with the user, the database and all other settings
// of DATABASE_URL.
func nodeOpener(c *app.Core) citusstore.Opener {
	return func(ctx context.Context, host string, port uint16) (*pgxpool.Pool, error) {
		return c.NewPool(ctx, nodeConfig(c.Database.Postgres, host, port))
	}
}

// nodeConfig returns the settings of DATABASE_URL with the host and the port of a node.
//
// The fallbacks of pgx are the other hosts of DATABASE_URL, and the second attempt at each host with sslmode prefer or allow: one
// attempt uses TLS, and the other does not. A node needs both attempts, but no other host.
func nodeConfig(database *pgxpool.Config, host string, port uint16) *pgxpool.Config {
	cfg := database.Copy()
	conn := cfg.ConnConfig
	others := slices.IndexFunc(conn.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != conn.Host || f.Port != conn.Port })
	if others >= 0 {
		conn.Fallbacks = conn.Fallbacks[:others]
	}
	conn.Host, conn.Port = host, port
	setServerName(conn.TLSConfig, host)
	for _, f := range conn.Fallbacks {
		f.Host, f.Port = host, port
		setServerName(f.TLSConfig, host)
	}
	return cfg
}

// setServerName replaces the server name that TLS sends and verifies. If DATABASE_URL disables the server name with sslsni=0, TLS
// continues to send none. A nil settings stands for a connection without TLS.
func setServerName(settings *tls.Config, host string) {
	if settings != nil && settings.ServerName != "" {
		settings.ServerName = host
	}
}

// reportNodes registers a metric of the nodes with links that do not answer. Every server has this metric, so that an alert can use it.
func reportNodes(registry prometheus.Registerer, placement shortener.Placement) {
	down := func() float64 { return 0 }
	if nodes, ok := placement.(*citusstore.Store); ok {
		down = func() float64 { return float64(nodes.Down()) }
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "shortener_nodes_down", Help: "Nodes of a Citus cluster that have links and do not answer. Without Citus it is 0.",
	}, down))
}
