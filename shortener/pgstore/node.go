package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/errgroup"

	"keypool/shortener"
)

const (
	// nodeTimeout is the time limit of one statement on a node. It leaves a creation the time for a second attempt, with a key of
	// another node, before its client gets an answer after 900 ms.
	nodeTimeout = 600 * time.Millisecond
	// probeTimeout is the time limit of a probe. It is longer, because a server that was just started is slow.
	probeTimeout = 3 * time.Second
	// probes is the number of connections that a probe warms up, one for each Insert that a server runs at a time.
	probes = 2
	// nodeFailures is the number of consecutive failures after which a node counts as down. If the last of them was a timeout, the node may
	// only be slow, and the number is nodeTimeouts.
	nodeFailures = 2
	nodeTimeouts = 4
	// nodePause is the time after which a node that is down is asked again.
	nodePause = 500 * time.Millisecond
)

// errCallerLeft reports that the context of the caller ended, which says nothing about the node.
var errCallerLeft = errors.New("the caller left")

// errNodeDown reports that a node of the cluster is down. No statement was sent to it.
var errNodeDown = errors.New("the node of the link does not answer")

// node is a server of a cluster that has links.
type node struct {
	address
	limit   time.Duration
	store   *Store // sends statements to the node, which executes them alone if they concern its links only
	circuit *gobreaker.CircuitBreaker[struct{}]
}

func newNode(a address, limit time.Duration, store *Store, log *slog.Logger) *node {
	log = log.With(slog.String("node", a.String()))
	var last error // the lock that the library holds during IsSuccessful and ReadyToTrip guards it
	return &node{address: a, limit: limit, store: store, circuit: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: nodePause,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			if errors.Is(last, context.DeadlineExceeded) {
				return c.ConsecutiveFailures >= nodeTimeouts
			}
			return c.ConsecutiveFailures >= nodeFailures
		},
		IsSuccessful: func(err error) bool { last = err; return nodeAnswered(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errCallerLeft) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateClosed:
				log.Info("node with links answers again")
			case from == gobreaker.StateClosed:
				log.Warn("node with links does not answer; new links live on other nodes")
			}
		},
	})}
}

// nodeAnswered reports whether an error shows that the node answers.
func nodeAnswered(err error) bool {
	var reply *pgconn.PgError
	if errors.As(err, &reply) {
		return reply.SeverityUnlocalized == "ERROR" && reply.Code[:2] != classIntervention
	}
	return err == nil || isNotFound(err) || errors.Is(err, shortener.ErrOtherOrder) || errors.Is(err, shortener.ErrChanged) || errors.Is(err, errRowVanished)
}

// answers reports whether the node is in use.
func (n *node) answers() bool { return n.circuit.State() == gobreaker.StateClosed }

// call calls do, which sends statements to the node, with a time limit, unless the node is down.
func (n *node) call(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := n.circuit.Execute(func() (none struct{}, err error) {
		if err = do(limited); err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errCallerLeft, err)
		}
		return none, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = fmt.Errorf("%w: %s", errNodeDown, n)
	}
	return err
}

// probe asks whether the node accepts links.
func (n *node) probe(ctx context.Context) error { return n.call(ctx, probeTimeout, n.store.warm) }

// warm inserts no links, over several connections of the pool. A new connection to a node of a cluster first loads the metadata of
// the cluster, which takes longer than many inserts.
func (s *Store) warm(ctx context.Context) error {
	none := newColumns(nil)
	none.ranks, none.order = []int64{}, s.fingerprint
	var inserts errgroup.Group
	for range probes {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return errors.Join(err, inserts.Wait())
		}
		defer conn.Release() //nolint:gocritic // deferInLoop: each of the few inserts has its own connection
		inserts.Go(func() error {
			var batch pgx.Batch
			batch.Queue(none.statement(), none.values()...)
			return s.send(ctx, conn, &batch)
		})
	}
	return inserts.Wait()
}
