//go:build drill

package drill

import (
	"path/filepath"
	"testing"

	"keypool/internal/testenv"
)

// together is how many processes of a kind start at the same moment.
const together = 16

// Many processes find the same empty SQLite file.
func TestStartTogetherEmbedded(t *testing.T) {
	startTogether(t, "DATABASE_URL=sqlite:"+filepath.Join(t.TempDir(), "shortener.db"))
}

// Many processes find the same empty Postgres.
func TestStartTogetherPostgres(t *testing.T) {
	// Each process has a connection pool of its own.
	startTogether(t, "DATABASE_URL="+testenv.StartPostgres(t, "max_connections=400").URL)
}

func startTogether(t *testing.T, database string) {
	t.Helper()
	var servers []*service
	var migrations []*process
	for range together {
		server := newServer(t, database, "KGS_POOL_CAPACITY=1000")
		migrate := command(server.dir, "shortener", server.settings, "migrate")
		migrations = append(migrations, startProcess(t, migrate, filepath.Join(server.dir, "migrate.log")))
		server.launch()
		servers = append(servers, server)
	}
	for _, m := range migrations {
		if status := m.exit(patient); status != 0 {
			t.Errorf("migrate ended with status %d:\n%s", status, m.tail())
		}
	}
	for _, s := range servers {
		s.awaitReady()
	}
	for i := range servers {
		followElsewhere(t, []*service{servers[i], servers[(i+1)%len(servers)]}, 2)
	}
	servers[0].audit()
	for _, s := range servers {
		s.stop()
	}
	servers[0].audit()
}
