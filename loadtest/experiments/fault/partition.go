package fault

import (
	"strings"
	"time"

	"keypool/loadtest/lab"
)

const reaped = "connections end"

// farAddress is the address at which the programs reach PostgreSQL in row 32. The experiment itself uses 127.0.0.1.
const farAddress = "127.0.0.2"

// partitionRows returns the fault row in which the network between the servers and PostgreSQL loses all packets.
func partitionRows() []row {
	return []row{{
		Name: "fault/32", Title: "silent network partition between servers and PostgreSQL",
		Summary: "Under load, the kernel drops all packets between two servers and PostgreSQL, for 150 s at scale 1 and for at least 40 s at a smaller scale. Neither side gets " +
			"an error or learns that a connection has ended.",
		Run: inject(partitioned), Controls: without(reaped, "keepalives"),
		Claims: theLinks(
			observed(refusal, "During the partition, a server answers a creation with 503 and Retry-After."),
			counted(reaped, "connections", "During the partition, PostgreSQL ends all connections that it had before the partition."),
			observed(recovers, "After the partition, each server creates links again without intervention."),
			timed(recoveryTime, "Links are created again within 10 s after the partition."),
			noneFails("after the recovery"),
		),
	}}
}

// fromClients selects the processes of PostgreSQL that serve clients, except the process that serves this query.
const fromClients = ` FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`

func partitioned(r *run) {
	r.use(lab.Postgres(r, manyConnections, "listen_addresses=127.0.0.1,"+farAddress), lab.Redis(r), "KGS_POOL_CAPACITY=100000")
	address := strings.Replace(r.postgres.Addr, "127.0.0.1", farAddress, 1)
	far := "DATABASE_URL=" + strings.Replace(r.links, r.postgres.Addr, address, 1)
	servers := launch(2, func() *lab.Program { return r.server(far) })
	each(servers, awaitReady)
	var loads []*lab.Load
	for _, s := range servers {
		loads = append(loads, r.start(s, 150))
	}
	for _, load := range loads {
		load.AwaitMore(100)
	}
	cut := time.Now()
	before, err := lab.Values[int](r.Context(), r.postgres.URL, `SELECT pid`+fromClients)
	r.Must(err)
	heal := lab.Partition(r, address)
	r.strike(1)
	refuses := lab.Happens(r, patient, func() bool { _, _, right := refused(r, servers[0]); return right })
	r.saw(refusal, refuses, "%s creation was answered with status 503 and a header Retry-After", either(refuses, "a", "no"))
	left := func() int {
		return lab.Value[int](r, r.postgres.URL, `SELECT count(*)`+fromClients+` AND pid = ANY($1)`, before)
	}
	lab.Happens(r, patient, func() bool { return left() == 0 })
	r.figure(reaped, 0, float64(left()), "%d of the %d connections from before the partition were left %v after the start of the partition", left(), len(before), time.Since(cut).Round(time.Second))
	lab.Pause(r, max(r.Lasting(150*time.Second), 40*time.Second)-time.Since(cut))
	r.stop(loads...)
	heal()
	r.createsAgain(time.Now(), loads)
	for _, load := range loads {
		r.stop(load)
		r.record.Served = r.record.Served.Plus(r.during(load, 150, time.Second+r.Lasting(10*time.Second)))
	}
	r.end(servers...)
}
