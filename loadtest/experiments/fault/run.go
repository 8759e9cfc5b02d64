package fault

import (
	"path/filepath"
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

// patient is the usual time limit of a fault row that waits until its programs have
// reached a state, such as a full pool.
const patient = lab.Patience

// run is one run of a fault row. It has the databases and the settings that the programs of the
// fault row share. Only the goroutine of the run may call its methods.
type run struct {
	*experiment.T
	record *Record

	postgres, redis *lab.Database // nil in a fault row that uses SQLite
	links           string        // the URL of the database of the links
	settings        []string      // settings of every program
	loads           []*lab.Load   // all loads of the row
}

// store makes the programs store their links in the database at url, and use the given settings.
func (r *run) store(url string, settings ...string) {
	r.links, r.settings = url, append([]string{"DATABASE_URL=" + url}, settings...)
}

// embedded makes the programs use an SQLite file.
func (r *run) embedded(settings ...string) {
	r.store("sqlite:"+filepath.Join(r.TempDir(), "shortener.db"), settings...)
}

// databases starts a PostgreSQL and a Redis that lose no acknowledged write, and makes the programs use
// them.
func (r *run) databases(settings ...string) {
	r.use(lab.Postgres(r, manyConnections), lab.DurableRedis(r), settings...)
}

// fastDatabases does the same as the method databases, but its Redis writes nothing to disk. It suits a
// fault row that does not kill Redis.
func (r *run) fastDatabases(settings ...string) {
	r.use(lab.Postgres(r, manyConnections), lab.Redis(r), settings...)
}

// use makes the programs use the given databases and the given settings.
func (r *run) use(postgres, redis *lab.Database, settings ...string) {
	r.postgres, r.redis = postgres, redis
	r.store(postgres.URL, append([]string{"REDIS_URL=" + redis.URL}, settings...)...)
}

// manyConnections is a setting of PostgreSQL. It is high because each process has its own connection pool.
const manyConnections = "max_connections=400"

// noWorker is the setting of a server that does not run a worker.
const noWorker = "KGS_WORKER=false"

// longCodes is a setting of fault rows that create links before the pool has keys, and that know the exact number of
// abandoned keys. Before the pool has keys, links get random codes. If a random code equals a reserved key, the audit
// counts the key as abandoned. With 600,000 reserved keys of six characters and 1,000 random codes, the probability of an
// equal code is 1 %. With ten characters, it is less than 10^-8.
const longCodes = "CODE_LENGTH=10"

// server prepares a server. If the settings do not contain noWorker, the server also runs a worker.
func (r *run) server(settings ...string) *lab.Program {
	return lab.Server(r, slices.Concat(r.settings, settings)...)
}

// started prepares and starts a server.
func (r *run) started(settings ...string) *lab.Program {
	server := r.server(settings...)
	server.Start()
	return server
}

// worker prepares a worker.
func (r *run) worker(settings ...string) *lab.Program {
	return lab.Worker(r, slices.Concat(r.settings, settings)...)
}

// launch starts n programs at the same moment. It does not wait until they are ready.
func launch(n int, program func() *lab.Program) (all []*lab.Program) {
	for range n {
		all = append(all, program())
	}
	each(all, (*lab.Program).Launch)
	return all
}

// each calls the function do once for each program.
func each(programs []*lab.Program, do func(*lab.Program)) {
	for _, p := range programs {
		do(p)
	}
}

func awaitReady(p *lab.Program) { p.AwaitReady(patient) }

// startFull starts a server that runs a worker, and waits until the pool is full.
func (r *run) startFull() *lab.Program {
	server := r.started()
	r.awaitFull(server)
	return server
}

// awaitFull waits until the program p reports a full pool, and returns the status of p at this time.
func (r *run) awaitFull(p *lab.Program) (s lab.Status) {
	lab.Wait(r, patient, "the pool is full", func() bool { s = p.Status(); return s.Full() })
	return s
}

// refills waits until the pool is full. It records the result for the claim whose name is the constant recovers.
// The parameter since names the event at which the wait begins.
func (r *run) refills(p *lab.Program, since string) {
	r.becomes(recovers, since, "the pool is full", func() bool { return p.Status().Full() })
}

// traffic prepares a load, which creates links on a server. The links are read back at the end of the fault row.
func (r *run) traffic(server *lab.Program) *lab.Load {
	load := lab.Traffic(r, server)
	r.loads = append(r.loads, load)
	return load
}

// start prepares and starts a load on a server. The parameter rate is the number of
// creations per second.
func (r *run) start(server *lab.Program, rate float64) *lab.Load {
	load := r.traffic(server)
	load.Start(rate)
	return load
}

// stop ends loads, and returns the figures of the last of them.
func (r *run) stop(loads ...*lab.Load) (last loadtest.Figures) {
	for _, load := range loads {
		last = load.Stop()
		r.record.Slowest = max(r.record.Slowest, last.Latency.Max)
	}
	return last
}

// during creates links for the given length of time and returns the figures of the load.
func (r *run) during(load *lab.Load, rate float64, length time.Duration) loadtest.Figures {
	load.Start(rate)
	lab.Pause(r, length)
	return r.stop(load)
}

// serve ends loads and adds their figures to Record.Served, by which the claims about availability are judged.
func (r *run) serve(loads ...*lab.Load) {
	for _, load := range loads {
		r.record.Served = r.record.Served.Plus(r.stop(load))
	}
}

// link creates a link on a server and returns its code. It repeats the creation, because a server on a busy machine may
// refuse it.
func (r *run) link(s *lab.Program, url string) string {
	var o loadtest.Outcome
	lab.Wait(r, patient, "a link is created", func() bool {
		o = s.Client.Create(r.Context(), url)
		return o.State == loadtest.Acknowledged
	})
	return o.Code
}

// audit checks the accounts of the databases that a program uses, and records the result.
func (r *run) audit(p *lab.Program) lab.Accounts {
	a := lab.Audit(r, p.Settings...)
	r.sawAccounts(a)
	return a
}

// end stops the loads and reads all links back through every server. It restarts each server first, so
// that no answer comes from a cache. Then it stops the servers. It audits the accounts while the servers
// run and again after they have stopped. It returns the result of the last audit.
func (r *run) end(servers ...*lab.Program) lab.Accounts {
	r.stop(r.loads...)
	r.audit(servers[0])
	for _, s := range servers {
		s.Restart()
		r.sawLinks(lab.Check(r, s, lab.Census(r.links), r.loads...))
	}
	each(servers, (*lab.Program).Stop)
	return r.audit(servers[0])
}
