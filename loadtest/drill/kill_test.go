//go:build drill

package drill

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

// The server on SQLite is killed under load, again and again.
func TestKillEmbedded(t *testing.T) {
	database := filepath.Join(t.TempDir(), "shortener.db")
	server := newServer(t, "DATABASE_URL=sqlite:"+database)
	killRepeatedly(t, server, times(200), sqliteCensus(database))
}

// The same with Postgres and a pool in Redis, the worker in the server.
func TestKillPostgres(t *testing.T) {
	postgres, redis := testenv.StartPostgres(t), testenv.StartRedis(t)
	server := newServer(t, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL)
	killRepeatedly(t, server, times(50), postgresCensus(postgres.URL))
}

func killRepeatedly(t *testing.T, server *service, kills int, census loadtest.Census) {
	t.Helper()
	load := newTraffic(t, server)
	load.start(500)
	for n := range kills {
		// Each time at another point, and every fourth time in the middle of the start.
		if n%4 == 3 {
			server.launch()
			pass(t, rand.N(100*time.Millisecond))
		} else {
			server.start()
			load.awaitMore(1 + rand.Int64N(200))
		}
		server.kill()
	}
	server.start()
	load.awaitMore(1)
	server.audit()
	t.Logf("%d kills; %+v", kills, load.stop())
	server.restart()
	judge(t, server, census, load)
	server.stop()
	server.audit()
}
