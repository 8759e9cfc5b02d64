package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
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
	Shards int `name:"shards" placeholder:"N" min:"1" max:"64000" help:"Distribute the tables of links over the nodes of a Citus cluster, in N shards for each table, after the migration. DATABASE_URL must lead to the coordinator. Rows that exist are moved. Stop all servers first. The command may be repeated."`
}

// checkShards checks DATABASE_URL if the flag --shards is set. It returns an error unless the URL leads to the
// coordinator of a Citus cluster that has a node for the tables. It changes nothing.
func checkShards(ctx context.Context, s config.Server, f migrateFlags) error {
	if f.Shards == 0 {
		return nil
	}
	if s.Database.Postgres == nil {
		return &config.Error{Name: "--shards", Got: "an SQLite database", Takes: "a DATABASE_URL of the coordinator of a Citus cluster"}
	}
	ctx, cancel := context.WithTimeout(ctx, program.StartTimeout)
	defer cancel()
	cfg := s.Database.LedgerPool()
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // without prepared statements, which a connection pooler may not support
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	return errors.Join(app.RefuseDatabase("DATABASE_URL", migrations.CheckCitus(ctx, db)), db.Close())
}

// distribute distributes the tables of links over the nodes of the cluster.
func distribute(ctx context.Context, c *app.Core, shards int) error {
	connections, err := c.OpenPool(ctx, c.Database.LedgerPool())
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(connections)
	var n, workers int
	err = migrations.Exclusive(ctx, db, migrations.PostgreSQL, func() error {
		n, err = migrations.Distribute(ctx, db, shards)
		if err == nil {
			workers, err = migrations.Workers(ctx, db)
		}
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
	if workers == 0 {
		c.Log.Warn("the Citus cluster has no workers, so all links are on the coordinator; add workers with citus_add_node, then move shards to them with citus_rebalance_start")
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

// connectNodes returns a store and a placement. Both know on which node of a Citus cluster each link is. If the tables of links are
// not distributed, connectNodes returns store and nil. When p stops, p first closes the service of the links, and then the
// connections to the nodes.
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
	readings := kgs.NewFailureLog(c.Log, "read which node has which links")
	p.Background("places of links", p.Fail, func(ctx context.Context) error { return nodes.Watch(ctx, readings.Note) })
	return nodes, nodes, nil
}

// checkHost returns an error if the first host of DATABASE_URL is a Unix socket. pgx ignores sslmode for a Unix socket.
// So the connections to the nodes, which use TCP, would have no TLS settings.
func checkHost(database *pgxpool.Config) error {
	if network, _ := pgconn.NetworkAddress(database.ConnConfig.Host, database.ConnConfig.Port); network != "unix" {
		return nil
	}
	return &config.Error{
		Name: "DATABASE_URL", Got: "a Unix socket, although the links are distributed over a Citus cluster",
		Takes: "the host name or the address of the coordinator, with sslmode, because the server reaches the nodes over TCP",
	}
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
// pgx has two kinds of fallbacks. The first kind is the other hosts of DATABASE_URL. The second kind exists if sslmode is prefer or
// allow: it is a second attempt at the same host. One of the two attempts uses TLS, and the other does not. nodeConfig keeps both
// attempts, and removes the other hosts.
func nodeConfig(database *pgxpool.Config, host string, port uint16) *pgxpool.Config {
	cfg := database.Copy()
	conn := cfg.ConnConfig
	if others := config.OtherHost(cfg); others >= 0 {
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

// setServerName replaces the server name that TLS sends and verifies. If the server name is empty, for example because
// of sslsni=0 with sslmode=require, setServerName does not change it. If settings is nil, the connection does not use
// TLS.
func setServerName(settings *tls.Config, host string) {
	if settings != nil && settings.ServerName != "" {
		settings.ServerName = host
	}
}

// reportNodes registers a metric: the number of nodes that have links and do not answer. A server without a Citus cluster also has
// this metric, so that one alert rule suits all servers.
func reportNodes(registry prometheus.Registerer, placement shortener.Placement) {
	down := func() float64 { return 0 }
	if nodes, ok := placement.(*citusstore.Store); ok {
		down = func() float64 { return float64(nodes.Down()) }
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "shortener_nodes_down", Help: "Nodes of a Citus cluster that have links and do not answer. Without Citus it is 0.",
	}, down))
}
