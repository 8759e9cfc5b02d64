//go:build drill

package drill

import (
	"math/rand/v2"
	"path/filepath"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

// The server on SQLite is killed under load, again and again.
func killEmbedded(d *drill) {
	database := filepath.Join(d.TempDir(), "shortener.db")
	server := newServer(d, "DATABASE_URL=sqlite:"+database)
	killRepeatedly(d, server, d.times(200), sqliteCensus(database))
}

// The same with Postgres and a pool in Redis, the worker in the server.
func killPostgres(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	server := newServer(d, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL)
	killRepeatedly(d, server, d.times(50), postgresCensus(postgres.URL))
}

func killRepeatedly(d *drill, server *service, kills int, census loadtest.Census) {
	d.Helper()
	load := newTraffic(d, server)
	load.start(500)
	for n := range kills {
		// Each time at another point, and every fourth time in the middle of the start.
		if n%4 == 3 {
			server.launch()
			pass(d, rand.N(100*time.Millisecond))
		} else {
			server.start()
			load.awaitMore(1 + rand.Int64N(200))
		}
		server.kill()
		d.struck(1)
	}
	server.start()
	load.awaitMore(1)
	server.audit()
	d.Logf("%d kills; %+v", kills, load.stop())
	server.restart()
	judge(d, server, census, load)
	server.stop()
	server.audit()
}
