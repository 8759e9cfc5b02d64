package pgstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/shortener"
)

// replicaTimeout is the time limit of a look-up at a replica. The rest of the time of a look-up remains for the
// primary.
const replicaTimeout = 300 * time.Millisecond

// Replicas looks links up in replicas of PostgreSQL, which follow the primary by streaming replication.
//
// A replica answers a look-up only with a row that it has. If it has no row, the primary answers, because the
// replica may lack the newest links. So a link that was just created is found, whatever the lag.
//
// A replica may have an old version of a row. Therefore it is asked only if it has applied all changes that are older
// than the maximum lag. While the primary does not answer, no change is acknowledged, and a replica is asked that was
// up to date when the primary last answered.
//
// Replicas may be used concurrently. Watch must run, otherwise the primary answers all look-ups.
type Replicas struct {
	primary  *Store
	maxLag   time.Duration
	log      primaryLog
	replicas []*replica
	turns    atomic.Uint32
	metrics  *ReplicaMetrics
}

// replica is one replica and what the last measurement has shown.
type replica struct {
	store *Store
	// applied is the time of the latest change that the replica is known to have applied. It is nil if the replica is
	// not usable.
	applied atomic.Pointer[time.Time]
}

// NewReplicas returns a reader of the replicas at pools. Their primary is the server of primary. A replica whose lag
// is greater than maxLag is not asked. The caller closes the pools.
func NewReplicas(primary *Store, pools []*pgxpool.Pool, maxLag time.Duration, metrics *ReplicaMetrics) *Replicas {
	r := &Replicas{primary: primary, maxLag: maxLag, log: primaryLog{memory: max(lagShown, 2*maxLag)}, metrics: metrics}
	for _, pool := range pools {
		r.replicas = append(r.replicas, &replica{store: New(pool, primary.order)})
	}
	return r
}

// Lookup returns the row of code, as the Lookup of a [shortener.Store] does. But the row may be as old as the maximum
// lag, or older while the primary does not answer.
func (r *Replicas) Lookup(ctx context.Context, code string) (shortener.Link, error) {
	if replica := r.next(time.Now()); replica != nil {
		link, err := replica.lookup(ctx, code)
		r.metrics.count(err)
		if err == nil {
			return link, nil
		}
	}
	return r.primary.Lookup(ctx, code)
}

// next returns the replica that answers the next look-up, or nil if no replica may answer. The replicas take turns.
func (r *Replicas) next(now time.Time) *replica {
	first := r.turns.Add(1)
	for i := range uint32(len(r.replicas)) {
		replica := r.replicas[(first+i)%uint32(len(r.replicas))]
		if applied := replica.applied.Load(); applied != nil && r.log.reference(now).Sub(*applied) <= r.maxLag {
			return replica
		}
	}
	return nil
}

// lookup asks the replica. If the replica does not answer, it is not asked again before the next measurement.
func (r *replica) lookup(ctx context.Context, code string) (shortener.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	applied := r.applied.Load()
	link, err := r.store.Lookup(ctx, code)
	if err != nil && !isNotFound(err) {
		r.applied.CompareAndSwap(applied, nil)
	}
	return link, err
}
