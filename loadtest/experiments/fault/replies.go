package fault

import (
	"fmt"
	"strings"
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
				keysAre(keysKept, "No key disappears: each reserved key is accounted for.", "missing"),
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
	r.databases("KGS_POOL_CAPACITY=10000")
	proxy := lab.Proxy(r, r.redis.Addr)
	server := r.server("REDIS_URL=redis://"+proxy.Addr, noWorker, fmt.Sprintf("KGS_BATCH_MIN=%d", batch), fmt.Sprintf("KGS_BATCH_MAX=%d", batch))
	proxy.Lose(2, batch*7/2, lab.ScriptWith("'LPOP'")) // a key is six characters and a space
	r.worker().Start()
	server.Start()
	r.awaitFull(server)
	load := r.traffic(server)
	figures := r.during(load, 500, r.Lasting(20*time.Second))
	r.mend(proxy, load)

	a := r.end(server)
	// A creation that failed may have cost its key; a lost reply must not.
	r.figure("cost of a lost reply", float64(figures.Failed()), float64(a.Lost()),
		"%d lost replies with batches of %d keys abandoned %d keys; %d creations failed", proxy.Lost(), batch, a.Lost(), figures.Failed())
}

// mend makes a proxy lose no more replies, waits for a link, and counts what was lost.
func (r *run) mend(proxy *lab.NetProxy, load *lab.Load) {
	proxy.Lose(1, 0, nil)
	load.Start(100)
	load.AwaitMore(1)
	r.stop(load)
	r.strike(proxy.Lost())
}

// A pool is filled in at least 20 pushes, whatever its size.
func pushReplyLost(r *run) {
	r.databases("KGS_POOL_CAPACITY=10000")
	proxy := lab.Proxy(r, r.redis.Addr)
	server := r.server(noWorker)
	proxy.Lose(3, 1, lab.ScriptWith("struct.unpack"))
	server.Start()
	r.worker("REDIS_URL=redis://" + proxy.Addr).Start()
	r.awaitFull(server)
	r.during(r.traffic(server), 500, r.Lasting(15*time.Second))
	r.strike(proxy.Lost())

	twice := conflicts(server)
	r.figure("conflicts", 0, twice, "%v keys were handed out although they were links", twice)
	r.end(server)
}

func commitReplyLost(r *run) {
	postgres := lab.Postgres(r)
	proxy := lab.Proxy(r, postgres.Addr)
	r.store(postgres.URL)
	server := r.server("DATABASE_URL=" + strings.Replace(postgres.URL, postgres.Addr, proxy.Addr, 1))
	server.Start()
	load := r.traffic(server)
	for _, keep := range []int{0, 5} {
		proxy.Lose(5, keep, lab.StatementWith("INSERT INTO links"))
		r.during(load, 200, 2*time.Second+r.Lasting(8*time.Second))
	}
	r.mend(proxy, load)
	r.end(server)
}
