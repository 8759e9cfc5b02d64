package citusstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"keypool/shortener/pgstore"
)

const (
	// nodeTimeout is the time limit of one statement on a node. It is shorter than the 900 ms for which package commit
	// waits for the commit of a link. So if a link was not written, its creation has time for an attempt with a key of
	// another node.
	nodeTimeout = 600 * time.Millisecond
	// probeTimeout is the time limit of a probe. It is longer than nodeTimeout, because a server that was just started is slow.
	probeTimeout = 3 * time.Second
	// probes is the maximum number of connections that a probe warms up: one for each Insert that package commit runs at the same time.
	probes = 2
	// nodeFailures is the number of consecutive failures after which a node counts as down. If the last failure was a
	// timeout, the node may only be slow, and counts as down after nodeTimeouts failures. If the node has not answered
	// since its circuit breaker was created or closed, one failure of either kind is enough.
	nodeFailures = 2
	nodeTimeouts = 4
	// nodePause is the time after which the circuit breaker of a node that is down lets a probe through.
	nodePause = 500 * time.Millisecond
)

// errCallerLeft reports that the context of the caller ended. The circuit breaker ignores this error, because it does not show
// whether the node answers.
var errCallerLeft = errors.New("the caller no longer waits")

// errNodeDown reports that a node of the cluster is down. No statement was sent to this node.
var errNodeDown = errors.New("the node of the link does not answer")

// node is a server that has links, in a Citus cluster.
type node struct {
	address
	limit   time.Duration
	store   *pgstore.Store // connects to the node, or to the coordinator if the node cannot plan statements
	circuit *gobreaker.CircuitBreaker[struct{}]
	probing atomic.Bool // whether Watch is probing the node
}

func newNode(a address, limit time.Duration, store *pgstore.Store, log *slog.Logger) *node {
	log = log.With(slog.String("node", a.String()))
	var last error // guarded by the lock that gobreaker holds while it calls IsSuccessful and ReadyToTrip
	return &node{address: a, limit: limit, store: store, circuit: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: nodePause,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			if c.TotalSuccesses == 0 { // the node has not answered since the circuit breaker was created or closed
				return true
			}
			if errors.Is(last, context.DeadlineExceeded) {
				return c.ConsecutiveFailures >= nodeTimeouts
			}
			return c.ConsecutiveFailures >= nodeFailures
		},
		IsSuccessful: func(err error) bool { last = err; return pgstore.Answered(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errCallerLeft) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateClosed:
				log.Info("node with links answers again")
			case from == gobreaker.StateClosed:
				log.Warn("node with links does not answer; only its links in the cache redirect, and new links get keys of the other nodes", slog.Any("error", last))
			}
		},
	})}
}

// answers reports whether the node counts as answering: its circuit breaker is closed.
func (n *node) answers() bool { return n.circuit.State() == gobreaker.StateClosed }

// call sends statements of a request to the node: it calls do with a time limit. If the node is down, call fails at once. Only
// probes test whether a node is up again, because a request that made this test would wait as long as a probe.
func (n *node) call(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	if !n.answers() {
		return n.down()
	}
	return n.execute(ctx, limit, do)
}

func (n *node) down() error { return fmt.Errorf("%w: %s", errNodeDown, n) }

// execute calls do through the circuit breaker.
func (n *node) execute(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := n.circuit.Execute(func() (none struct{}, err error) {
		if err = do(limited); err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errCallerLeft, err)
		}
		return none, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return n.down()
	}
	return err
}

// probe checks whether the node accepts links, and warms connections up. A new connection to a node first loads the metadata of
// the cluster, which takes longer than many inserts.
func (n *node) probe(ctx context.Context) error {
	return n.execute(ctx, probeTimeout, func(ctx context.Context) error { return n.store.Warm(ctx, min(probes, n.store.Writers())) })
}
