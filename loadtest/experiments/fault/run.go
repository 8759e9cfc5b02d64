package fault

import (
	"path/filepath"
	"slices"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
)

const patient = lab.Patience

// run is one run of a row, with the databases and the settings that its programs share. Its
// methods belong to the goroutine of the run.
type run struct {
	*experiment.T
	record *Record

	postgres, redis *lab.Database // nil in a row that uses SQLite
	links           string        // the URL of the database of the links
	settings        []string      // of every program
	loads           []*lab.Load   // all that the row made
}

// store makes the programs keep their links in the database at url, with further settings.
func (r *run) store(url string, settings ...string) {
	r.links, r.settings = url, append([]string{"DATABASE_URL=" + url}, settings...)
}

// embedded makes the programs use an SQLite file.
func (r *run) embedded(settings ...string) {
	r.store("sqlite:"+filepath.Join(r.TempDir(), "shortener.db"), settings...)
}

// databases makes the programs use a PostgreSQL and a Redis that lose no acknowledged write.
func (r *run) databases(settings ...string) {
	r.use(lab.Postgres(r, manyConnections), lab.DurableRedis(r), settings...)
}

// fastDatabases is databases for a row that does not kill Redis, which keeps nothing on disk.
func (r *run) fastDatabases(settings ...string) {
	r.use(lab.Postgres(r, manyConnections), lab.DurableRedis(r, "--appendonly", "no"), settings...)
}

// use makes the programs use the databases.
func (r *run) use(postgres, redis *lab.Database, settings ...string) {
	r.postgres, r.redis = postgres, redis
	r.store(postgres.URL, append([]string{"REDIS_URL=" + redis.URL}, settings...)...)
}

// manyConnections is a setting of PostgreSQL: each process has a connection pool of its own.
const manyConnections = "max_connections=400"

// noWorker is the setting of a server that fills no pool.
const noWorker = "KGS_WORKER=false"

// server makes a server, which has a worker in it unless the settings say otherwise.
func (r *run) server(settings ...string) *lab.Program {
	return lab.Server(r, slices.Concat(r.settings, settings)...)
}

// started makes and starts a server.
func (r *run) started(settings ...string) *lab.Program {
	server := r.server(settings...)
	server.Start()
	return server
}

func (r *run) worker(settings ...string) *lab.Program {
	return lab.Worker(r, slices.Concat(r.settings, settings)...)
}

// launch starts n programs at the same moment and does not wait for them.
func launch(n int, program func() *lab.Program) (all []*lab.Program) {
	for range n {
		all = append(all, program())
	}
	each(all, (*lab.Program).Launch)
	return all
}

// each calls do for all programs.
func each(programs []*lab.Program, do func(*lab.Program)) {
	for _, p := range programs {
		do(p)
	}
}

func awaitReady(p *lab.Program) { p.AwaitReady(patient) }

// startFull starts a server with its worker and waits until the pool is full.
func (r *run) startFull() *lab.Program {
	server := r.started()
	r.awaitFull(server)
	return server
}

func (r *run) awaitFull(p *lab.Program) {
	lab.Wait(r, patient, "the pool is full", func() bool { return p.Status().Full() })
}

// refills waits for a full pool, which the row promises.
func (r *run) refills(p *lab.Program) {
	r.becomes(recovers, "the pool is full", func() bool { return p.Status().Full() })
}

// traffic prepares a load, whose links are read back at the end of the row.
func (r *run) traffic(on *lab.Program) *lab.Load {
	load := lab.Traffic(r, on)
	r.loads = append(r.loads, load)
	return load
}

// start begins a load.
func (r *run) start(on *lab.Program, rate float64) *lab.Load {
	load := r.traffic(on)
	load.Start(rate)
	return load
}

// stop ends a load and returns its figures.
func (r *run) stop(load *lab.Load) loadtest.Figures {
	f := load.Stop()
	r.record.Slowest = max(r.record.Slowest, f.Latency.Max)
	return f
}

// during creates links for a time and returns what happened.
func (r *run) during(load *lab.Load, rate float64, length time.Duration) loadtest.Figures {
	load.Start(rate)
	lab.Pause(r, length)
	return r.stop(load)
}

// serve ends loads, whose availability a claim is about.
func (r *run) serve(loads ...*lab.Load) {
	for _, load := range loads {
		r.record.Served = r.record.Served.Plus(r.stop(load))
	}
}

// audit closes the accounts of the databases that a program uses.
func (r *run) audit(of *lab.Program) lab.Accounts {
	a := lab.Audit(r, of.Settings...)
	r.sawAccounts(a)
	return a
}

// end stops the loads and reads all links back through every server, after a restart, so that no
// cache answers for the store; then it stops the servers. The accounts are closed while
// the servers run and when they do not. It returns what the last audit says.
func (r *run) end(servers ...*lab.Program) lab.Accounts {
	for _, load := range r.loads {
		r.stop(load)
	}
	r.audit(servers[0])
	for _, s := range servers {
		s.Restart()
		r.sawLinks(lab.Check(r, s, lab.Census(r.links), r.loads...))
	}
	each(servers, (*lab.Program).Stop)
	return r.audit(servers[0])
}
