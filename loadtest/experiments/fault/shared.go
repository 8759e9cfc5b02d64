package fault

import (
	"fmt"
	"strings"
	"time"

	"keypool/loadtest/lab"
)

const (
	oneSkip     = "numbers skipped"
	pages       = "page signalled"
	pageInTime  = "page in time"
	poolsLost   = "keys lost with pools"
	onlyCodes   = "codes of the pool only"
	cleanPool   = "pool without altered values"
	pageLimit   = 25 * time.Second
	sharedRate  = 100  // creations per second
	sharedPools = 5000 // capacity of each pool, in keys
)

// sharedRows returns the fault rows in which Redis is shared or altered by mistake: another ledger uses the same Redis,
// one ledger has pools in two Redis databases, or values in Redis are changed.
func sharedRows() []row {
	paged := []claim{
		observed(pages, "At least one of the servers that the fault affects signals `page`."),
		timed(pageInTime, "At least one of the servers that the fault affects signals `page` within 25 s."),
	}
	return []row{
		{
			Name: "fault/27", Title: "a copy of the database uses the same Redis",
			Summary: "Under load, a server starts with a copy of the database and the same REDIS_URL. Then FLUSHDB empties Redis repeatedly (eleven times at scale 1).",
			Run:     inject(databaseCopied), Controls: without(oneSkip, "pool-owner", "epoch-backoff"),
			Claims: theLinks(append(paged,
				counted(oneSkip, "skip-aheads", "The ledger of each database skips ahead at most once. A skip-ahead costs all numbers whose reservation a rollback may have removed."),
				observed(recovers, "After each FLUSHDB, the pool of the first database is full again."),
			)...),
		},
		{
			Name: "fault/28", Title: "two Redis databases for one ledger",
			Summary: "Under load, a second server starts with the same database, but with another database number in REDIS_URL.",
			Run:     inject(twoPools), Controls: without(poolsLost, "epoch-backoff"),
			Claims: theLinks(append(paged,
				counted(poolsLost, "keys", fmt.Sprintf("At most %.0f keys are lost, which is 1.2 times the number of keys in three full pools.", 3*sharedPools*1.2)),
			)...),
		},
		{
			Name: "fault/29", Title: "values in Redis altered by hand",
			Summary: "Under load, the experiment alters the pool, one value after the other. It adds codes with line breaks and codes of 33 characters. Then it sets the fields \"next\", \"range\", \"floor\" and \"epoch\" to numbers that are far too high.",
			Run:     inject(poolAltered), Controls: append(without(onlyCodes, "valid-codes"), without(cleanPool, "pool-values")...),
			Claims: theLinks(append(paged,
				counted(onlyCodes, "codes", "Every acknowledged code consists of six characters of base62."),
				observed(cleanPool, "After each change, a new epoch of the pool begins. The pool then becomes at least 90 % full, and no altered counter is left."),
				counted(oneSkip, "skip-aheads", "The ledger does not skip ahead."),
			)...),
		},
	}
}

// pagesSoon waits until a program signals page, and records the time from start until the signal.
func (r *run) pagesSoon(p *lab.Program, start time.Time) {
	paged := lab.Happens(r, patient, func() bool { return p.Status().State == "page" })
	r.saw(pages, paged, "the state of the server is %q", p.Status().State)
	r.took(pageInTime, pageLimit, time.Since(start))
}

// sawSkips records how often the ledger of each server has skipped ahead. The parameter most is the greatest number that
// the claim allows.
func (r *run) sawSkips(most float64, servers ...*lab.Program) {
	for _, s := range servers {
		skips := s.Counter("kgs_ledger_skips_total")
		r.figure(oneSkip, most, skips, "the ledger has skipped ahead %v times", skips)
	}
}

func databaseCopied(r *run) {
	r.fastDatabases(fmt.Sprintf("KGS_POOL_CAPACITY=%d", sharedPools))
	server := r.startFull()
	load := r.start(server, sharedRate)
	load.AwaitMore(100)
	r.stop(load)
	// The database is copied without a load, because CREATE DATABASE needs a template without connections.
	server.Stop()
	second := lab.CreateDatabase(r, r.postgres.URL, "copied", "postgres")
	server.Start()
	r.awaitFull(server)
	load.Start(sharedRate)

	copied := r.server("DATABASE_URL=" + second)
	copied.Start()
	began := time.Now()
	r.strike(1)
	r.pagesSoon(copied, began)
	client := lab.RedisClient(r, r.redis.URL)
	for range 1 + r.Times(10) {
		r.Must(client.FlushDB(r.Context()).Err())
		r.strike(1)
		lab.Pause(r, 2*time.Second)
		r.refills(server, "the pause of 2 s that follows FLUSHDB")
	}
	r.sawSkips(1, server, copied)
	copied.Stop()
	r.stop(load)
	r.end(server)
}

func twoPools(r *run) {
	r.fastDatabases(fmt.Sprintf("KGS_POOL_CAPACITY=%d", sharedPools))
	server := r.startFull()
	load := r.start(server, sharedRate)
	load.AwaitMore(100)
	second := r.server("REDIS_URL=" + r.redis.URL + "/1")
	second.Start()
	began := time.Now()
	r.strike(1)
	other := r.start(second, sharedRate)
	pagedBy := func() *lab.Program {
		for _, p := range []*lab.Program{server, second} {
			if p.Status().State == "page" {
				return p
			}
		}
		return nil
	}
	paged := lab.Happens(r, patient, func() bool { return pagedBy() != nil })
	r.saw(pages, paged, "the states of the two servers are %q and %q", server.Status().State, second.Status().State)
	r.took(pageInTime, pageLimit, time.Since(began))
	lab.Pause(r, max(5*time.Second, r.Lasting(30*time.Second)))
	r.stop(load)
	r.stop(other)
	lost := r.epochKeys()
	r.figure(poolsLost, 3*sharedPools*1.2, float64(lost), "%d keys are lost, because they were reserved before the last epoch and are not linked; a full pool has %d keys", lost, sharedPools)
	r.end(second, server) // the audit must read the pool of the second server, to which the last epoch belongs
}

// epochKeys returns how many numbers the ledger has reserved before the current epoch, minus the number of all links.
func (r *run) epochKeys() int64 {
	return lab.Value[int64](r, r.links, `SELECT coalesce(max(next), 0) - (SELECT count(*) FROM all_links) FROM kgs_epochs WHERE length = 6`)
}

func poolAltered(r *run) {
	r.fastDatabases(fmt.Sprintf("KGS_POOL_CAPACITY=%d", sharedPools))
	server := r.startFull()
	load := r.start(server, sharedRate)
	load.AwaitMore(100)
	client := lab.RedisClient(r, r.redis.URL)
	keys := func(kind string) string {
		names, err := client.Keys(r.Context(), "keypool:{*}:"+kind).Result()
		r.Must(err)
		if len(names) != 1 {
			r.Fatalf("the keys of kind %s in Redis are %q, want one", kind, names)
		}
		return names[0]
	}
	const absurd = "9000000000000000000"
	for n, change := range [][]any{
		{"LPUSH", keys("keys"), "abc\r\nLocation: https://example.net"}, {"LPUSH", keys("keys"), strings.Repeat("a", 33)},
		{"HSET", keys("state"), "next:6", absurd}, {"HSET", keys("state"), "range", absurd},
		{"HSET", keys("state"), "floor", absurd}, {"HSET", keys("state"), "epoch", absurd},
	} {
		epoch := lab.Known(server.Status().Epoch, -1)
		r.Must(client.Do(r.Context(), change...).Err())
		r.strike(1)
		if n == 0 {
			r.pagesSoon(server, time.Now()) // later changes are not timed, because the alarm lasts for a minute after the first change
		}
		clean := lab.Happens(r, patient, func() bool {
			s := server.Status()
			return lab.Known(s.PoolKeys, 0) >= sharedPools*9/10 && lab.Known(s.Epoch, -1) > epoch && lab.Known(s.Epoch, -1) < 100
		})
		values, err := client.HGetAll(r.Context(), keys("state")).Result()
		r.Must(err)
		for _, value := range values {
			clean = clean && value != absurd
		}
		r.saw(cleanPool, clean, "after the change %v, the pool %s", change, either(clean, "recovered completely", "did not recover completely"))
		if !clean {
			break // while this value is in Redis, further changes prove nothing
		}
	}
	r.stop(load)
	wrong := 0
	for _, e := range load.Entries() {
		if e.Code != "" && (len(e.Code) != 6 || strings.Trim(e.Code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "") {
			wrong++
		}
	}
	r.figure(onlyCodes, 0, float64(wrong), "%d acknowledged codes have another form", wrong)
	r.sawSkips(0, server)
	r.end(server)
}
