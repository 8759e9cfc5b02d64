//go:build citus

package citusstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"keypool/internal/testenv"
	"keypool/migrations"
	"keypool/shortener"
	"keypool/shortener/storetest"
)

// shardsOfTest is the number of shards of each table in these tests.
const shardsOfTest = 8

// distributed creates a schema in which the tables of links are distributed. It returns connections to the coordinator with
// this schema in their search path.
func distributed(t *testing.T, cluster *testenv.Cluster) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), cluster.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storetest.MigratePostgres(t, pool)
	if yes, err := IsDistributed(t.Context(), pool); yes || err != nil {
		t.Errorf("before the tables are distributed, IsDistributed returns %v, %v", yes, err)
	}
	db := stdlib.OpenDBFromPool(pool)
	for i := range 2 {
		if n, err := migrations.Distribute(t.Context(), db, shardsOfTest); err != nil || (n > 0) != (i == 0) {
			t.Fatalf("call %d distributed %d tables: %v", i, n, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if yes, err := IsDistributed(t.Context(), pool); !yes || err != nil {
		t.Errorf("IsDistributed returns %v, %v", yes, err)
	}
	return pool
}

// schemas contains connections to the schemas that no test uses at present. Each schema has distributed tables. Several tests
// use a schema one after the other, because it takes long to create a schema.
type schemas chan *pgxpool.Pool

func newSchemas(t *testing.T, cluster *testenv.Cluster, n int) schemas {
	s := make(schemas, n)
	for range n {
		s <- distributed(t, cluster)
	}
	return s
}

// get returns connections to a schema without rows. When the test ends, the schema becomes available again.
func (s schemas) get(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := <-s
	t.Cleanup(func() { s <- pool })
	if _, err := pool.Exec(t.Context(), `TRUNCATE ranked_links, unranked_links, idempotency_keys, link_order`); err != nil {
		t.Fatal(err)
	}
	return pool
}

// spread opens a store on the distributed tables in the search path of coordinator. The method Watch of the store runs
// until the test ends.
func spread(t *testing.T, coordinator *pgxpool.Pool, order shortener.Order) *Store {
	t.Helper()
	open := func(ctx context.Context, host string, port uint16) (*pgxpool.Pool, error) {
		cfg := coordinator.Config()
		cfg.ConnConfig.Host, cfg.ConnConfig.Port = host, port
		return pgxpool.NewWithConfig(ctx, cfg)
	}
	s, err := New(t.Context(), coordinator, order, open, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Watch(ctx, func(error) {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return s
}

// patient raises the time limit of statements on the present nodes of s. The first statements of each subtest are slow,
// because their connections are new.
func (s *Store) patient() {
	for _, n := range s.placement.Load().nodes {
		n.limit = 20 * time.Second
	}
}

func TestCitusStoreFollowsContract(t *testing.T) {
	t.Parallel()
	all := newSchemas(t, testenv.StartCitus(t, 2, "fsync=off", "max_connections=500"), 2)
	storetest.Run(t, func(t *testing.T, order shortener.Order) shortener.Store {
		s := spread(t, all.get(t), order)
		s.patient()
		return s
	})
}

// partsOf returns n links of each part, by part.
func partsOf(s *Store, prefix string, n int) map[int][]shortener.Link {
	links := make(map[int][]shortener.Link)
	for i, full := 0, 0; full < len(s.placement.Load().nodes); i++ {
		link := storetest.Link(fmt.Sprintf("%s%d", prefix, i))
		part, _ := s.PartOf(link.Code)
		if len(links[part]) < n {
			if links[part] = append(links[part], link); len(links[part]) == n {
				full++
			}
		}
	}
	return links
}

// await waits until ok returns true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(2 * time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 2 min: %s", what)
		}
	}
}

// hostPort returns the address of a server as it appears in the metadata of Citus.
func hostPort(t *testing.T, server *testenv.Server) (string, uint16) {
	t.Helper()
	host, text, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return host, uint16(port)
}

// partAt returns the number of the part that lives on a server, or -1 if the server has no links.
func (s *Store) partAt(t *testing.T, server *testenv.Server) int {
	t.Helper()
	host, port := hostPort(t, server)
	for part, n := range s.placement.Load().nodes {
		if n.host == host && n.port == port {
			return part
		}
	}
	return -1
}

// The store computes the same hash values and the same parts as Citus.
func TestStoreComputesSameNodeForCodeAsCitus(t *testing.T) {
	t.Parallel()
	pool := distributed(t, testenv.StartCitus(t, 2, "fsync=off"))
	s := spread(t, pool, storetest.Plain())
	texts := []string{"", "a", strings.Repeat("x", 11), strings.Repeat("x", 12), strings.Repeat("x", 13), "A-_0123456789abc"}
	numbers := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxUint32, -math.MaxUint32}
	for range 500 {
		numbers = append(numbers, rand.Int64(), -rand.Int64())
		texts = append(texts, fmt.Sprint(rand.Int64())[:rand.IntN(17)]+"-")
	}
	for _, n := range numbers {
		wantHash(t, pool, `SELECT worker_hash($1::bigint)`, n, hashInt8(n))
	}
	for _, text := range texts {
		wantHash(t, pool, `SELECT worker_hash($1::text COLLATE "C")`, text, hashText(text))
	}
	const place = `SELECT groupid FROM pg_dist_placement WHERE shardid = get_shard_id_for_distribution_column(`
	for i := range 100 {
		ranked, unranked := fmt.Sprintf("key%d", i), fmt.Sprintf("key-%d", i)
		rank, _ := storetest.Plain().Rank(ranked)
		part, _ := s.PartOf(ranked)
		wantHash(t, pool, place+`'ranked_links', $1::bigint)`, rank, int32(part))
		part, _ = s.PartOf(unranked)
		wantHash(t, pool, place+`'unranked_links', $1::text)`, unranked, int32(part))
		part, _ = s.PartOfRequest(unranked)
		wantHash(t, pool, place+`'idempotency_keys', $1::text)`, unranked, int32(part))
	}
}

// wantHash checks that a query of Citus returns the number that this package computes for the value: a hash value or the
// number of a part.
func wantHash[T any](t *testing.T, pool *pgxpool.Pool, query string, value T, want int32) {
	t.Helper()
	var got int32
	if err := pool.QueryRow(t.Context(), query, value).Scan(&got); err != nil || got != want {
		t.Errorf("%s of %v: Citus returns %d, %v; this package %d", query, value, got, err, want)
	}
}

// An Insert of links of one node needs no other node, whether the codes are new or in use.
func TestCitusInsertOnOneNodeNeedsNoOtherNode(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCitus(t, 2, "fsync=off")
	s := spread(t, distributed(t, cluster), storetest.Plain())
	for part, links := range partsOf(s, "loc", 20) {
		for _, worker := range cluster.Workers {
			if s.partAt(t, worker) != part {
				worker.Pause() // an Insert that needs this worker fails
				for range 2 {  // the second time, all codes are in use
					if _, err := s.Insert(t.Context(), links); err != nil {
						t.Errorf("Insert while the other worker hangs: %v", err)
					}
				}
				storetest.WantLink(t, s, links[0])
				worker.Resume()
			}
		}
	}
}

func TestCitusRefusesDatabaseWithAnotherOrderOfLinks(t *testing.T) {
	t.Parallel()
	pool := distributed(t, testenv.StartCitus(t, 1, "fsync=off"))
	plain, reversed := spread(t, pool, storetest.Plain()), spread(t, pool, storetest.Reversed())
	plain.patient()
	reversed.patient()
	storetest.RefusesOtherOrder(t, plain, reversed)
}

// A reindex locks the tables, changes the order and commits. An Insert that waits for the lock writes nothing, even if
// the node reuses the plans of earlier INSERT statements.
func TestCitusInsertThatWaitsForReindexWritesNothing(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCitus(t, 1, "fsync=off")
	pool := distributed(t, cluster)
	s := spread(t, pool, storetest.Plain())
	s.patient()
	worker, err := pgxpool.New(t.Context(), cluster.Workers[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	const setOrder = `INSERT INTO link_order (id, fingerprint) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint`
	for _, format := range []string{"r%d", "r-%d"} { // codes with and without a rank
		for _, n := range []int{1, 20} { // a single link has its own statement, and 20 links share a statement
			links := func(from int) (links []shortener.Link) {
				for i := range n {
					links = append(links, storetest.Link(fmt.Sprintf(format, 1000*n+100*from+i)))
				}
				return links
			}
			if _, err := pool.Exec(t.Context(), setOrder, storetest.Plain().Fingerprint()); err != nil {
				t.Fatal(err)
			}
			for i := range 8 { // PostgreSQL keeps a plan after the fifth execution
				storetest.Insert(t, s, links(i)...)
			}
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `LOCK TABLE ranked_links, unranked_links IN ACCESS EXCLUSIVE MODE`); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), setOrder, storetest.Reversed().Fingerprint()); err != nil {
				t.Fatal(err)
			}
			late, result := links(8), make(chan error, 1)
			go func() {
				_, err := s.Insert(t.Context(), late)
				result <- err
			}()
			await(t, "the Insert waits for the lock", func() (waits bool) {
				if err := worker.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`).Scan(&waits); err != nil {
					t.Error(err)
				}
				return waits
			})
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-result; !errors.Is(err, shortener.ErrOtherOrder) || !errors.Is(err, shortener.ErrNotWritten) {
				t.Errorf("Insert of %d links that waited for a change of the order: %v; want ErrOtherOrder and ErrNotWritten", n, err)
			}
			for _, l := range late {
				if found, err := s.Lookup(t.Context(), l.Code); !errors.Is(err, shortener.ErrNotFound) {
					t.Errorf("Lookup of a link that the Insert must not write: %v, %v; want ErrNotFound", found, err)
				}
			}
		}
	}
}

// While a worker is down, only the links on this worker are unavailable. They are available after the worker answers
// again.
func TestCitusWorkerOutageAffectsOnlyLinksOnWorker(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCitus(t, 2, "fsync=off")
	s := spread(t, distributed(t, cluster), storetest.Plain())
	before, during := partsOf(s, "a", 5), partsOf(s, "b", 5)
	for _, links := range before {
		storetest.Insert(t, s, links...)
	}
	lost := cluster.Workers[0]
	down := s.partAt(t, lost)
	for _, fault := range []struct{ inject, mend func() }{{lost.Kill, lost.Restart}, {lost.Pause, lost.Resume}} {
		fault.inject()
		await(t, "the store detects that the worker is down", func() bool {
			_, err := s.Lookup(t.Context(), before[down][0].Code)
			_, answers := s.PartOf(before[down][0].Code)
			return err != nil && !answers
		})
		began := time.Now()
		if _, err := s.Insert(t.Context(), during[down]); !errors.Is(err, shortener.ErrNotWritten) || time.Since(began) > 100*time.Millisecond {
			t.Errorf("Insert on a worker that is down: %v after %v, want ErrNotWritten at once", err, time.Since(began))
		}
		for part, links := range before {
			if part != down {
				storetest.WantLink(t, s, links[0])
				storetest.Insert(t, s, during[part]...)
			}
		}
		if !s.Answers(nil) || s.Down() != 1 {
			t.Errorf("%d nodes are down, want one of two", s.Down())
		}
		fault.mend()
		await(t, "the worker is used again", func() bool { _, answers := s.PartOf(before[down][0].Code); return answers })
		storetest.WantLink(t, s, before[down][0])
	}
	storetest.WantOutcomes(t, storetest.Insert(t, s, during[down][0]), shortener.Inserted)
}

// While the coordinator is down, links can be created, changed and found.
func TestCitusLinksAreAvailableWithoutCoordinator(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCitus(t, 2, "fsync=off")
	s := spread(t, distributed(t, cluster), storetest.Plain())
	cluster.Coordinator.Kill()
	for _, links := range partsOf(s, "c", 3) {
		storetest.Insert(t, s, links...)
		storetest.WantLink(t, s, links[0])
		storetest.Delete(t, s, links[1])
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("Ping without the coordinator: %v", err)
	}
	cluster.Coordinator.Restart()
}

// The coordinator has no links. So the store is not available while only the coordinator answers.
func TestCitusPingFailsWhileNoWorkerAnswers(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCitus(t, 2, "fsync=off")
	s := spread(t, distributed(t, cluster), storetest.Plain())
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("Ping of a healthy cluster: %v", err)
	}
	for _, worker := range cluster.Workers {
		worker.Kill()
	}
	await(t, "the store detects that all workers are down", func() bool {
		for _, links := range partsOf(s, "p", 1) {
			_, _ = s.Lookup(t.Context(), links[0].Code) // the circuit breaker of the node records the failure
		}
		return !s.Answers(nil)
	})
	if err := s.Ping(t.Context()); !errors.Is(err, errNoNode) {
		t.Errorf("Ping while no worker answers: %v, want errNoNode", err)
	}
	for _, worker := range cluster.Workers {
		worker.Restart()
	}
	await(t, "the workers are used again", func() bool { return s.Ping(t.Context()) == nil })
}

// After shards have moved to a new worker, the store finds their links, and uses the new worker directly.
func TestCitusStoreFindsLinksOfMovedShards(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCitus(t, 1, "fsync=off")
	s := spread(t, distributed(t, cluster), storetest.Plain())
	links := partsOf(s, "r", 100)[s.partAt(t, cluster.Workers[0])]
	storetest.Insert(t, s, links...)
	added := cluster.AddWorker()
	conn, err := pgx.Connect(t.Context(), cluster.Coordinator.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')`); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the store uses the new worker", func() bool { return s.partAt(t, added) >= 0 })
	s.mu.Lock()
	if n := s.pools[len(s.pools)-1].Stat().TotalConns(); n < probes {
		t.Errorf("the store has %d connections to the new worker at its first use, want %d", n, probes)
	}
	s.mu.Unlock()
	s.patient() // raise the time limit, because the machine may be busy
	for _, link := range links {
		storetest.WantLink(t, s, link)
	}
	if n := s.nodeOfAll(links); n != nil {
		t.Errorf("all links still live on %v", n)
	}
}
