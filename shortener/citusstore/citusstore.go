// Package citusstore keeps links in PostgreSQL tables that are distributed over the nodes of a Citus cluster. It uses a
// [pgstore.Store] for each node.
//
// Each node that has links is a part of the store (see [shortener.Placement]). The tables are divided into shards,
// each of which lives on one node. The store computes on which node a link lives. If a statement concerns links of
// one node, and this node has the metadata of the cluster, the store sends the statement directly to the node. The
// node plans and executes the statement alone: the coordinator has no work, and the commit is not a two-phase commit.
// If a statement concerns links of several nodes, the store sends it to the coordinator.
//
// If a node is down, only its links are unavailable. A caller that creates a link asks PartOf whether the node of the code
// answers. If the node does not answer, the caller chooses a code of another node.
//
// If shards move to other nodes, Watch detects this within about placementInterval. Until then, the former node of a shard passes
// statements on to the new node. So these statements are slower, but their results are right.
package citusstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"keypool/internal/upkeep"
	"keypool/shortener"
	"keypool/shortener/pgstore"
)

// Store implements [shortener.Store] and [shortener.Placement].
type Store struct {
	*pgstore.Store // uses the connections to the coordinator
	coordinator    *pgxpool.Pool
	order          shortener.Order
	open           Opener
	log            *slog.Logger
	limit          time.Duration // time limit of a statement on a node
	placement      atomic.Pointer[placement]
	nodes          map[address]*node // every node that ever had links; only New and Watch use this map

	mu     sync.Mutex
	pools  []*pgxpool.Pool // connections to the nodes
	closed bool
}

// Opener returns a pool of connections to a node of a cluster. An Opener does not wait for a connection. The store
// closes the pool.
type Opener func(ctx context.Context, host string, port uint16) (*pgxpool.Pool, error)

var (
	_ shortener.Store     = (*Store)(nil)
	_ shortener.Placement = (*Store)(nil)
)

// New returns a store that uses the distributed tables in the search path of coordinator. New asks the coordinator
// on which nodes the links live. The caller must run Watch, which detects when a node that was down answers again.
// At the end, the caller calls Close and then closes coordinator.
func New(ctx context.Context, coordinator *pgxpool.Pool, order shortener.Order, open Opener, log *slog.Logger) (*Store, error) {
	s := &Store{
		Store: pgstore.NewClustered(coordinator, order), coordinator: coordinator, order: order,
		open: open, log: log, limit: nodeTimeout, nodes: make(map[address]*node),
	}
	if err := s.refresh(ctx, startTimeout); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the connections to the nodes. It blocks until the methods that use these connections return. Watch must
// have returned.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	pools := s.pools
	s.pools = nil
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, pool := range pools {
		closing.Go(pool.Close)
	}
	closing.Wait()
}

// each calls do for all nodes of a placement at the same time. It ignores the errors, because the circuit breaker of each node
// records them.
func (p *placement) each(ctx context.Context, do func(*node, context.Context) error) {
	var calls errgroup.Group
	for _, n := range p.nodes {
		calls.Go(func() error { return do(n, ctx) })
	}
	_ = calls.Wait()
}

// refresh asks the coordinator on which nodes the links live, and waits at most limit for the answer. It probes each new
// node before the store uses the node, because the first statements on a new connection are slow.
func (s *Store) refresh(ctx context.Context, limit time.Duration) error {
	reading, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	known := s.placement.Load()
	fresh := make(map[*node]bool)
	p, err := readPlacement(reading, s.coordinator, known, func(a address) (*node, error) {
		_, old := s.nodes[a]
		n, err := s.nodeAt(reading, a)
		fresh[n] = !old
		return n, err
	})
	if err != nil {
		return fmt.Errorf("read where the links live: %w", err)
	}
	if p == known {
		return nil
	}
	p.each(ctx, func(n *node, ctx context.Context) error {
		if !fresh[n] {
			return nil
		}
		return n.probe(ctx)
	})
	s.placement.Store(p)
	return nil
}

// nodeAt returns the node at an address. A node that is known already keeps its state.
func (s *Store) nodeAt(ctx context.Context, a address) (*node, error) {
	if n := s.nodes[a]; n != nil {
		return n, nil
	}
	store := s.Store // the coordinator, which plans the statements for a node without the metadata of the cluster
	if a.own {
		pool, err := s.openPool(ctx, a)
		if err != nil {
			return nil, err
		}
		store = pgstore.NewClustered(pool, s.order)
	}
	s.nodes[a] = newNode(a, s.limit, store, s.log)
	return s.nodes[a], nil
}

// errNoNode reports that no node with links answers.
var errNoNode = errors.New("no node with links answers")

// errClosed reports that the store is closed.
var errClosed = errors.New("the store is closed")

// openPool returns a pool of connections to a node. Close closes the pool.
func (s *Store) openPool(ctx context.Context, a address) (*pgxpool.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	pool, err := s.open(ctx, a.host, a.port)
	if err == nil {
		s.pools = append(s.pools, pool)
	}
	return pool, err
}

const (
	probeInterval     = 100 * time.Millisecond
	placementInterval = time.Second
	placementTimeout  = 900 * time.Millisecond
	// startTimeout is the time limit of refresh in New. The context of New usually ends earlier.
	startTimeout = time.Minute
)

// Watch runs until ctx ends. It probes the nodes that are down until they answer. At intervals, it asks the coordinator
// on which nodes the links live, and passes the result, an error or nil, to note.
func (s *Store) Watch(ctx context.Context, note func(error)) error {
	var watchers errgroup.Group
	watchers.Go(func() error {
		var running sync.WaitGroup
		defer running.Wait()
		return upkeep.Repeat(ctx, probeInterval, func(ctx context.Context) error { s.probe(ctx, &running); return nil }, func(error) {})
	})
	watchers.Go(func() error {
		return upkeep.Repeat(ctx, placementInterval, func(ctx context.Context) error { return s.refresh(ctx, placementTimeout) }, note)
	})
	return watchers.Wait()
}

// probe starts a probe of each node that is down, if no other probe of this node is running. It does not wait for the probes, so
// a node that hangs does not delay the probes of other nodes.
func (s *Store) probe(ctx context.Context, running *sync.WaitGroup) {
	for _, n := range s.placement.Load().nodes {
		if n.answers() || !n.probing.CompareAndSwap(false, true) {
			continue
		}
		running.Go(func() {
			defer n.probing.Store(false)
			_ = n.probe(ctx) // the circuit breaker of the node records the result
		})
	}
}

// PartOf implements [shortener.Placement].
func (s *Store) PartOf(code string) (part int, answers bool) {
	n := s.nodeOf(code)
	return n.part, n.answers()
}

// PartOfRequest implements [shortener.Placement].
func (s *Store) PartOfRequest(key string) (part int, answers bool) {
	n := s.nodeOfRequest(key)
	return n.part, n.answers()
}

// nodeOfRequest returns the node that keeps an idempotency key. The table of these keys is distributed in the same
// way as unranked_links. So an idempotency key and an unranked code with the same hash value are on the same node.
func (s *Store) nodeOfRequest(key string) *node {
	p := s.placement.Load()
	return p.nodes[p.unranked.partOf(hashText(key))]
}

// Answers implements [shortener.Placement].
func (s *Store) Answers(fits func(part int) bool) bool {
	for part, n := range s.placement.Load().nodes {
		if n.answers() && (fits == nil || fits(part)) {
			return true
		}
	}
	return false
}

// Down returns the number of nodes that have links and do not answer.
func (s *Store) Down() (n int) {
	for _, node := range s.placement.Load().nodes {
		if !node.answers() {
			n++
		}
	}
	return n
}

// nodeOf returns the node on which the link of code lives.
func (s *Store) nodeOf(code string) *node {
	p := s.placement.Load()
	if rank, ok := s.order.Rank(code); ok {
		return p.nodes[p.ranked.partOf(hashInt8(rank))]
	}
	return p.nodes[p.unranked.partOf(hashText(code))]
}

// nodeOfAll returns the node on which all links and the idempotency keys of their creations live. If they live on several nodes, it
// returns nil.
func (s *Store) nodeOfAll(links []shortener.Link) *node {
	var n *node
	for i := range links {
		of := s.nodeOf(links[i].Code)
		if n != nil && n != of || links[i].IdempotencyKey != nil && s.nodeOfRequest(links[i].IdempotencyKey.Key) != of {
			return nil
		}
		n = of
	}
	return n
}

// Insert implements [shortener.Store]. If the links and their idempotency keys live on several nodes, all these nodes must answer,
// and the commit is a two-phase commit.
func (s *Store) Insert(ctx context.Context, links []shortener.Link) (outcomes []shortener.Outcome, err error) {
	n := s.nodeOfAll(links)
	if n == nil {
		return s.insertOnSeveral(ctx, links)
	}
	err = n.call(ctx, n.limit, func(ctx context.Context) error {
		outcomes, err = n.store.Insert(ctx, links)
		return err
	})
	if errors.Is(err, errNodeDown) {
		err = fmt.Errorf("insert links: %w: %w", shortener.ErrNotWritten, err)
	}
	return outcomes, err
}

// deadlockAttempts is the maximum number of attempts of an Insert on several nodes.
const deadlockAttempts = 3

// insertOnSeveral inserts links that live on several nodes. Citus writes to the nodes at the same time, so two Inserts with the
// same codes can deadlock. Then Citus rolls one of the Inserts back, and insertOnSeveral tries again.
func (s *Store) insertOnSeveral(ctx context.Context, links []shortener.Link) (outcomes []shortener.Outcome, err error) {
	for range deadlockAttempts {
		if outcomes, err = s.Store.Insert(ctx, links); !pgstore.IsDeadlock(err) {
			break
		}
	}
	return outcomes, err
}

// Lookup implements [shortener.Store].
func (s *Store) Lookup(ctx context.Context, code string) (link shortener.Link, err error) {
	n := s.nodeOf(code)
	err = n.call(ctx, n.limit, func(ctx context.Context) error {
		link, err = n.store.Lookup(ctx, code)
		return err
	})
	return link, err
}

// FirstCreation implements [shortener.Store].
func (s *Store) FirstCreation(ctx context.Context, owner int64, key string) (first shortener.FirstCreation, err error) {
	n := s.nodeOfRequest(key)
	err = n.call(ctx, n.limit, func(ctx context.Context) error {
		first, err = n.store.FirstCreation(ctx, owner, key)
		return err
	})
	return first, err
}

// Change implements [shortener.Store].
func (s *Store) Change(ctx context.Context, old, changed shortener.Link) error {
	n := s.nodeOf(old.Code)
	return n.call(ctx, n.limit, func(ctx context.Context) error { return n.store.Change(ctx, old, changed) })
}

// Ping implements [shortener.Store]. It pings all nodes with links at the same time, and succeeds if one of them answers, because
// some links can then be created.
func (s *Store) Ping(ctx context.Context) error {
	var answered atomic.Bool
	s.placement.Load().each(ctx, func(n *node, ctx context.Context) error {
		err := n.call(ctx, n.limit, n.store.Ping)
		if err == nil {
			answered.Store(true)
		}
		return err
	})
	if answered.Load() {
		return nil
	}
	return cmp.Or(ctx.Err(), errNoNode)
}
