//go:build drill

package drill

import (
	"strings"

	"keypool/internal/testenv"
)

// The programs are given another FF1 key than the ledger was made with.
func wrongSecret(d *drill) {
	postgres, redis := testenv.StartPostgres(d), testenv.StartRedis(d)
	settings := []string{
		"DATABASE_URL=" + postgres.URL, "REDIS_URL=" + redis.URL, "KGS_POOL_CAPACITY=10000", "CODE_LENGTH=3",
	}
	right, wrong := "KGS_SECRET="+strings.Repeat("2b", 16), "KGS_SECRET="+strings.Repeat("2c", 16)
	server := newServer(d, append(settings, right)...)
	server.start()
	load := newTraffic(d, server)
	load.start(200)
	load.awaitMore(int64(d.times(1000)))
	load.stop()
	server.stop()

	for _, s := range []*service{
		newServer(d, append(settings, wrong)...),
		newWorker(d, append(settings, wrong)...),
		newServer(d, settings...), // none at all
		newServer(d, append(settings, right, "KGS_PERMUTE=false")...),
	} {
		s.launch()
		refuses(d, s, "KGS_")
	}
	server.start()
	load.start(200)
	load.awaitMore(int64(d.times(1000)))
	load.stop()
	end(d, postgresCensus(postgres.URL), []*service{server}, load)
}
