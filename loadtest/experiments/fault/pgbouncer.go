package fault

import (
	"time"

	"keypool/loadtest/lab"
)

// recoveryTime is the claim about the time from the end of an outage to the next creation.
const recoveryTime = "recovery time"

// poolerRows returns the fault row in which the connection pooler between the servers and PostgreSQL restarts.
func poolerRows() []row {
	return []row{{
		Name: "fault/pgbouncer", Title: "PgBouncer restarts in transaction mode",
		Summary: "Two servers reach PostgreSQL through a PgBouncer in transaction mode, which can give consecutive transactions different connections. " +
			"Under load, PgBouncer is killed with SIGKILL or stopped with SIGTERM, in turn, and restarted a second later.",
		Run: inject(poolerRestarts),
		Claims: theLinks(
			observed(recovers, "Each server starts although it reaches PostgreSQL only through PgBouncer. After each restart of PgBouncer, each server creates links again."),
			timed(recoveryTime, "Links are created again within 10 s after PgBouncer accepts connections again."),
			observed(refusal, "While PgBouncer is down, the server answers every creation with 503 and Retry-After."),
			noneFails("after the recovery, while PgBouncer runs"),
		),
		Controls: append(without(refusal, "commit"), without(recovers, "pooler")...),
	}}
}

func poolerRestarts(r *run) {
	r.fastDatabases("KGS_POOL_CAPACITY=100000")
	pooler := lab.PgBouncer(r, r.postgres)
	behind := "DATABASE_URL=" + pooler.URL
	servers := launch(2, func() *lab.Program { return r.server(behind) })
	var loads []*lab.Load
	for i, s := range servers {
		r.becomes(recovers, either(i == 0, "the launch of the servers", "the other server was ready"), "a server is ready behind PgBouncer", func() bool { return s.TryReady(r.Context()) == nil })
		loads = append(loads, r.traffic(s))
	}
	end := []func(){pooler.Kill, pooler.Stop}
	for n := range max(4, r.Times(40)) {
		for _, load := range loads {
			load.Start(150)
			load.AwaitMore(100)
		}
		end[n%2]()
		r.strike(1)
		for until := time.Now().Add(time.Second); time.Now().Before(until); {
			answer, _, right := refused(r, servers[n%2])
			r.saw(refusal, right, "%s", answer)
		}
		r.stop(loads...)
		pooler.Restart()
		r.createsAgain(time.Now(), loads)
		r.stop(loads...)
	}
	for _, load := range loads {
		r.record.Served = r.record.Served.Plus(r.during(load, 150, time.Second+r.Lasting(10*time.Second)))
	}
	r.end(servers...)
}

// createsAgain starts the loads and waits until each server creates links again. It records the recovery time, which
// begins at the given end of the outage (ended).
func (r *run) createsAgain(ended time.Time, loads []*lab.Load) {
	for _, load := range loads {
		load.Start(150)
	}
	for i, load := range loads {
		r.becomes(recovers, either(i == 0, "the start of the loads", "links were created again on the other server"), "links are created again", func() bool { return load.Figures().Acknowledged > 0 })
	}
	r.took(recoveryTime, 10*time.Second, time.Since(ended))
}
