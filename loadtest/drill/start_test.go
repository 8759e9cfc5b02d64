//go:build drill

package drill

import (
	"path/filepath"

	"keypool/internal/testenv"
)

// together is how many processes of a kind start at the same moment.
const together = 16

// Many processes find the same empty SQLite file.
func startEmbedded(d *drill) {
	startTogether(d, "DATABASE_URL=sqlite:"+filepath.Join(d.TempDir(), "shortener.db"))
}

// Many processes find the same empty Postgres.
func startPostgres(d *drill) {
	// Each process has a connection pool of its own.
	startTogether(d, "DATABASE_URL="+testenv.StartPostgres(d, "max_connections=400").URL)
}

func startTogether(d *drill, database string) {
	d.Helper()
	var servers []*service
	var migrations []*process
	for range together {
		server := newServer(d, database, "KGS_POOL_CAPACITY=1000")
		migrate := d.command(server.dir, "shortener", server.settings, "migrate")
		migrations = append(migrations, startProcess(d, migrate, filepath.Join(server.dir, "migrate.log")))
		server.launch()
		servers = append(servers, server)
	}
	d.struck(1)
	for _, m := range migrations {
		if status := m.exit(patient); status != 0 {
			d.Errorf("migrate ended with status %d:\n%s", status, m.tail())
		}
	}
	for _, s := range servers {
		s.awaitReady()
	}
	for i := range servers {
		followElsewhere(d, []*service{servers[i], servers[(i+1)%len(servers)]}, 2)
	}
	servers[0].audit()
	for _, s := range servers {
		s.stop()
	}
	servers[0].audit()
}
