package pgstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"keypool/shortener"
)

// replicaTimeout is the time limit of a look-up at a replica. It leaves time to ask the primary, because the caller
// limits the time of the whole look-up.
const replicaTimeout = 300 * time.Millisecond

// Replicas looks links up in replicas of PostgreSQL, which follow the primary by streaming replication.
//
// If a replica has no row for a code, the primary answers, because the replica may lack the newest links. So a
// look-up finds a link that was just created, whatever the lag of the replica.
//
// A replica may have an old version of a row. So look-ups ask only a replica that has applied all changes that are
// older than the maximum lag. While the primary does not answer, look-ups ask a replica that was up to date when the
// primary last answered. Until the primary answers this server again, such a replica may lack two kinds of changes:
//
//   - changes, such as deletions, that the primary acknowledged before it stopped, and did not send to the replica;
//   - changes that other servers make while a network partition separates this server from the primary.
//
// Replicas may be used concurrently. The caller must run Watch, which measures the lag of the replicas. Without a
// measurement, the primary answers all look-ups.
type Replicas struct {
	primary   *Store
	maxLag    time.Duration
	log       primaryLog
	replicas  []*replica
	turns     atomic.Uint32
	measuring singleflight.Group // shares a measurement between the look-ups that wait for it
	metrics   *ReplicaMetrics
}

// replica is one replica and the result of its last measurement.
type replica struct {
	store *Store
	// applied is a time. The replica has applied all changes that were acknowledged before this time. The pointer is
	// nil if look-ups must not ask the replica.
	applied atomic.Pointer[time.Time]

	mu          sync.Mutex
	unconfirmed *reading // a position that must be compared with a later sample of the primary; nil if there is none
	confirmed   int64    // the history of the primary (see primaryLog) at the last time that a sample confirmed a position of this replica
	ahead       int64    // the last position that was ahead of the primary; 0 if none was
}

// NewReplicas returns a Replicas. Each of pools holds the connections to one server, which should be a replica of the
// server that primary uses. Look-ups ask only a server that follows the primary and whose lag is at most maxLag. The
// caller closes the pools.
func NewReplicas(primary *Store, pools []*pgxpool.Pool, maxLag time.Duration, metrics *ReplicaMetrics) *Replicas {
	r := &Replicas{primary: primary, maxLag: maxLag, log: primaryLog{memory: max(lagShown, 2*maxLag)}, metrics: metrics}
	for _, pool := range pools {
		r.replicas = append(r.replicas, &replica{store: New(pool, primary.order)})
	}
	return r
}

// Lookup is like the Lookup of a [shortener.Store], but the row may be as old as the maximum lag. While the primary
// does not answer, the row may be older.
func (r *Replicas) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	link, asked := r.ask(ctx, r.log.reference(time.Now()), code)
	if asked == nil {
		return link, nil
	}
	link, err := r.primary.Lookup(ctx, code)
	if Answered(err) || isNotFound(asked) || ctx.Err() != nil {
		return link, err
	}
	// The primary may have stopped since the last sample, and no sample has detected this yet. So ask a replica that was
	// up to date at the time of the last sample.
	last, sampled := r.log.last()
	if !sampled {
		return link, err
	}
	replicated, failed := r.ask(ctx, last, code)
	if errors.Is(failed, errNoReplica) {
		// On a busy machine, the last measurement of a replica may be old, and a replica that did not answer in time may
		// answer now. So measure the replicas, and ask again.
		r.measureAll(ctx)
		replicated, failed = r.ask(ctx, last, code)
	}
	if failed == nil {
		return replicated, nil
	}
	return link, err
}

// Answered returns the time at which the primary last answered this server. While the primary answers, and before its first
// answer, the result is now. While the primary does not answer, a replica may lack the changes after this time for longer than
// the maximum lag.
func (r *Replicas) Answered(now time.Time) time.Time { return r.log.reference(now) }

// errNoReplica reports that no replica may be asked.
var errNoReplica = errors.New("no replica is up to date")

// ask looks a code up in a replica that lagged by at most r.maxLag at the time reference. If there is no such replica, ask
// fails with errNoReplica.
func (r *Replicas) ask(ctx context.Context, reference time.Time, code string) (shortener.Link, error) {
	replica := r.next(reference)
	if replica == nil {
		return shortener.Link{}, errNoReplica
	}
	link, err := replica.lookup(ctx, code)
	r.metrics.count(err)
	return link, err
}

// next returns a replica that lagged by at most r.maxLag at the time reference, or nil if there is none. The replicas take
// turns.
func (r *Replicas) next(reference time.Time) *replica {
	first := r.turns.Add(1)
	for i := range uint32(len(r.replicas)) {
		replica := r.replicas[(first+i)%uint32(len(r.replicas))]
		if applied := replica.applied.Load(); applied != nil && reference.Sub(*applied) <= r.maxLag {
			return replica
		}
	}
	return nil
}

// lookup asks the replica. If the replica does not answer, look-ups ask it again only after a measurement has
// succeeded.
func (r *replica) lookup(caller context.Context, code string) (shortener.Link, error) {
	ctx, cancel := context.WithTimeout(caller, replicaTimeout)
	defer cancel()
	applied := r.applied.Load()
	link, err := r.store.Lookup(ctx, code)
	if err != nil && !isNotFound(err) && caller.Err() == nil {
		r.applied.CompareAndSwap(applied, nil)
	}
	return link, err
}
