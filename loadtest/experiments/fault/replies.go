package fault

import (
	"fmt"
	"net/url"
	"time"

	"keypool/loadtest/lab"
)

// replyRows are the faults in which a request is carried out and its reply is lost.
func replyRows() []row {
	return []row{
		{
			name: "8", title: "reply to a take lost", change: true,
			injected: "A proxy between server and Redis cuts every second reply to a take in the middle.",
			run:      takeReplyLost, controls: without(keysKept, "take-id"),
			claims: theLinks(
				noKeyIsMissing(),
				counted("cost of a lost reply", "keys", "A lost reply costs no key: at most one key a failed creation is abandoned."),
			),
		},
		{
			name: "9", title: "reply to a push lost",
			injected: "A proxy between worker and Redis drops every third reply to a push.",
			run:      pushReplyLost, controls: without(keysOnce, "mark"),
			claims: theLinks(
				keysAreUnique(),
				counted("conflicts", "keys", "No key of the pool is handed out that is a link already."),
			),
		},
		{
			name: "16", title: "commit acknowledged but reply lost", change: true,
			injected: "A proxy between server and PostgreSQL resets the connection at every fifth commit of links, in place of the reply or after a few bytes of it.",
			run:      commitReplyLost, controls: without(once, "repeat"), claims: theLinks(),
		},
	}
}

func takeReplyLost(r *run) {
	const batch = 50
	postgres, redis := lab.Postgres(r), lab.DurableRedis(r)
	proxy := lab.Proxy(r, redis.Addr)
	database := "DATABASE_URL=" + postgres.URL
	worker := lab.Worker(r, database, "REDIS_URL="+redis.URL, "KGS_POOL_CAPACITY=10000")
	server := lab.Server(r, database, "REDIS_URL=redis://"+proxy.Addr, "KGS_POOL_CAPACITY=10000", "KGS_WORKER=false",
		fmt.Sprintf("KGS_BATCH_MIN=%d", batch), fmt.Sprintf("KGS_BATCH_MAX=%d", batch))
	proxy.Lose(2, batch*7/2, lab.ScriptWith("'LPOP'")) // a key is six characters and a space
	worker.Start()
	server.Start()
	awaitFull(r, server)
	load := lab.Traffic(r, server)
	figures := r.during(load, 500, r.Lasting(20*time.Second))
	proxy.Lose(1, 0, nil)
	load.Start(100)
	load.AwaitMore(1)
	r.stop(load)
	r.struck(proxy.Lost(), "reply to a take lost")

	a := r.end([]*lab.Program{server}, load)
	// A creation that failed may have cost its key; a lost reply must not.
	r.figure("cost of a lost reply", float64(figures.Failed()), float64(a.Lost()),
		"%d lost replies with batches of %d keys abandoned %d keys; %d creations failed", proxy.Lost(), batch, a.Lost(), figures.Failed())
}

// A pool is filled in at least 20 pushes, whatever its size.
func pushReplyLost(r *run) {
	postgres, redis := lab.Postgres(r), lab.DurableRedis(r)
	proxy := lab.Proxy(r, redis.Addr)
	database, capacity := "DATABASE_URL="+postgres.URL, "KGS_POOL_CAPACITY=10000"
	worker := lab.Worker(r, database, "REDIS_URL=redis://"+proxy.Addr, capacity)
	server := lab.Server(r, database, "REDIS_URL="+redis.URL, capacity, "KGS_WORKER=false")
	proxy.Lose(3, 1, lab.ScriptWith("struct.unpack"))
	server.Start()
	worker.Start()
	awaitFull(r, server)
	load := lab.Traffic(r, server)
	r.during(load, 500, r.Lasting(15*time.Second))
	r.struck(proxy.Lost(), "reply to a push lost")

	twice := conflicts(server)
	r.figure("conflicts", 0, twice, "%v keys were handed out although they were links", twice)
	r.end([]*lab.Program{server}, load)
}

func commitReplyLost(r *run) {
	postgres := lab.Postgres(r)
	proxy := lab.Proxy(r, postgres.Addr)
	server := lab.Server(r, "DATABASE_URL="+through(r, proxy, postgres.URL))
	server.Start()
	load := lab.Traffic(r, server)
	for _, keep := range []int{0, 5} {
		proxy.Lose(5, keep, lab.StatementWith("INSERT INTO links"))
		r.during(load, 200, 2*time.Second+r.Lasting(8*time.Second))
	}
	proxy.Lose(1, 0, nil)
	load.Start(100)
	load.AwaitMore(1)
	r.stop(load)
	r.struck(proxy.Lost(), "reply to a commit lost")
	r.end([]*lab.Program{server}, load)
}

// through is a database's URL that leads to it by way of a proxy.
func through(r *run, p *lab.NetProxy, database string) string {
	u, err := url.Parse(database)
	r.Must(err)
	u.Host = p.Addr
	return u.String()
}
