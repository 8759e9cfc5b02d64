//go:build drill

package drill

import (
	"math/rand/v2"
	"path/filepath"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest"
)

// What bounds a local batch in row 1, and by how many keys.
const (
	killBatchMax = "KGS_BATCH_MAX=500"
	killBatch    = 500
)

// The server on SQLite is killed under load, again and again.
func killEmbedded(d *drill) {
	database := filepath.Join(d.TempDir(), "shortener.db")
	server := newServer(d, "DATABASE_URL=sqlite:"+database, killBatchMax)
	killRepeatedly(d, server, d.times(200), sqliteCensus(database))
}

// The same with Postgres and a pool in Redis, the worker in the server.
func killPostgres(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	server := newServer(d, "DATABASE_URL="+postgres.URL, "REDIS_URL="+redis.URL, killBatchMax)
	killRepeatedly(d, server, d.times(50), postgresCensus(postgres.URL))
}

func killRepeatedly(d *drill, server *service, kills int, census loadtest.Census) {
	d.Helper()
	if d.control != nil {
		kills = max(kills, 20) // not every kill meets a commit that is under way
	}
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
	load.stop()
	server.restart()
	judge(d, server, census, load)
	server.stop()
	mustHaveAbandonedLocalKeys(d, server.audit(), kills)
}

// mustHaveAbandonedLocalKeys fails unless each kill cost no more than the two batches
// that a server holds, and what was on its way from another to the store. The server is
// down: what is still in batches belongs to the dead.
func mustHaveAbandonedLocalKeys(d *drill, a accounts, kills int) {
	d.Helper()
	lost := a.InBatches
	for _, n := range a.Abandoned {
		lost += n
	}
	d.note("%d keys a kill", lost/int64(kills))
	if limit := int64(kills * 3 * killBatch); lost > limit {
		d.Errorf("%d kills cost %d keys: %d in batches of the dead, abandoned %v", kills, lost, a.InBatches, a.Abandoned)
	}
}
