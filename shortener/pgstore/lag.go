package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"keypool/internal/upkeep"
)

const (
	// lagInterval is the time between two measurements. A measured lag may exceed the true lag by up to this time, plus
	// the durations of the queries.
	lagInterval = 100 * time.Millisecond
	// lagTimeout is the time limit of a measurement.
	lagTimeout = 500 * time.Millisecond
	// lagShown is the minimum time for which the positions of the primary are kept. So every lag up to lagShown can be
	// measured, and the metric can show a lag above the maximum lag.
	lagShown = time.Minute
)

// Errors of a measurement.
var (
	errNotReplica   = errors.New("the server is not a replica: it accepts writes")
	errOtherCluster = errors.New("the server does not replicate the primary: it has another system identifier, database or schema")
	errTimeline     = errors.New("the server replays another timeline than the primary")
	errAhead        = errors.New("the replica is ahead of the primary: the primary was restored from an older state, so the replica must be built again")
	errLag          = errors.New("the replica lags more than the maximum")
)

// identity is an SQL expression that has the same value on a primary and its replicas. The value names the cluster (PostgreSQL
// manual, "Control Data Functions"), the database and the schema.
const identity = `(SELECT system_identifier FROM pg_control_system()) || '/' || current_database() || '/' || current_schema()`

// These queries read a position in the write-ahead log: the timeline and a number of bytes. The promotion of a replica
// to the new primary begins a new timeline. Another replica may have applied more of the old timeline than the new
// primary. Such a replica cannot follow the new primary, and its position says nothing about the new timeline. So
// positions are comparable only on one timeline. replicaPosition reads three timelines of a replica: the timeline of
// the last restart point, the timeline of the minimum recovery end, and the timeline of the log that the replica
// receives. It returns the newest of the three. The third timeline is missing if the user may not read
// pg_stat_wal_receiver. In that case, look-ups may skip a replica that follows a new primary, until the next restart
// point of the replica.
const (
	primaryPosition = `SELECT pg_is_in_recovery(), ` + identity + `,
		CASE WHEN pg_is_in_recovery() THEN 0 ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
		CASE WHEN pg_is_in_recovery() THEN 0 ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') END::bigint`
	replicaPosition = `SELECT pg_is_in_recovery(), ` + identity + `,
		greatest((SELECT timeline_id FROM pg_control_checkpoint()), (SELECT min_recovery_end_timeline FROM pg_control_recovery()),
			(SELECT received_tli FROM pg_stat_wal_receiver))::bigint,
		coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::bigint`
)

// position is a position in the write-ahead log of a server.
type position struct {
	recovery bool // whether the server is a replica
	identity string
	timeline int64
	lsn      int64
}

// positionOf measures the position of the server of s.
func (s *Store) positionOf(ctx context.Context, query string) (p position, err error) {
	ctx, cancel := context.WithTimeout(ctx, lagTimeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, query).Scan(&p.recovery, &p.identity, &p.timeline, &p.lsn)
	return p, err
}

// Watch measures the lag of each replica several times per second, until ctx ends. After each measurement, it passes the index
// of the replica and the error of the measurement to note. If this error is nil, look-ups ask the replica. Watch calls note
// from one goroutine for each replica.
func (r *Replicas) Watch(ctx context.Context, note func(replica int, err error)) error {
	var watchers errgroup.Group
	watchers.Go(func() error {
		return upkeep.Repeat(ctx, lagInterval, func(ctx context.Context) error { r.log.addSample(ctx, r.primary); return nil }, func(error) {})
	})
	for i, replica := range r.replicas {
		watchers.Go(func() error {
			var lag *time.Duration
			measure := func(ctx context.Context) (err error) {
				lag, err = r.measure(ctx, replica)
				return err
			}
			return upkeep.Repeat(ctx, lagInterval, measure, func(err error) {
				r.metrics.measured(i, lag, err == nil)
				note(i, err)
			})
		})
	}
	return watchers.Wait()
}

// measureAll measures the lag of all replicas at the same time, for a look-up that found no replica to ask. Concurrent callers share a
// measurement, which takes at most lagTimeout. measureAll returns earlier if ctx ends.
func (r *Replicas) measureAll(ctx context.Context) {
	done := r.measuring.DoChan("", func() (any, error) {
		var all errgroup.Group
		for _, replica := range r.replicas {
			all.Go(func() error {
				_, err := r.measure(context.WithoutCancel(ctx), replica)
				return err
			})
		}
		return nil, all.Wait()
	})
	select {
	case <-done: // measure has stored the result in each replica
	case <-ctx.Done():
	}
}

// measure measures the lag of the replica. It returns an error if the replica does not answer, does not follow the primary or
// lags too much. The lag is nil if it is unknown.
func (r *Replicas) measure(ctx context.Context, replica *replica) (*time.Duration, error) {
	p, err := replica.store.positionOf(ctx, replicaPosition)
	if err == nil && !p.recovery {
		err = errNotReplica
	}
	var applied time.Time
	if err == nil {
		applied, err = r.log.applied(p)
	}
	if err == nil {
		err = replica.follows(p, &r.log)
	}
	if err != nil {
		replica.applied.Store(nil)
		return nil, err
	}
	replica.applied.Store(&applied)
	lag := r.log.reference(time.Now()).Sub(applied)
	if lag > r.maxLag {
		return &lag, fmt.Errorf("%w: the lag is %v", errLag, lag.Round(time.Millisecond))
	}
	return &lag, nil
}

// reading is a position of a replica, and a time after the position was read.
type reading struct {
	position
	at time.Time
}

// follows returns an error if the replica is ahead of the primary, or if no sample of the primary has confirmed the replica
// yet. The parameter p is the present position of the replica, whose identity and timeline are those of the primary.
//
// If the files of the primary are replaced by an older copy, the primary continues on the same timeline, and a replica
// has changes that the primary lacks. Such a replica usually stays at its position, and later the primary passes this
// position. Therefore follows remembers the position at which the replica was ahead. While the replica stays at this
// position, it is not used.
//
// A replica that is up to date is usually ahead of the last sample of the primary. So follows keeps a position of the
// replica, and compares it with a sample that began after the position was read. If the position is not ahead of this
// sample, the sample confirms the replica. After a change of the history of the primary, a sample must confirm the replica
// again.
func (r *replica) follows(p position, log *primaryLog) error {
	last, at, history := log.newest()
	r.mu.Lock()
	defer r.mu.Unlock()
	if seen := r.unconfirmed; seen != nil && at.After(seen.at) {
		if seen.identity == last.identity && seen.timeline == last.timeline {
			if seen.lsn > last.lsn {
				r.ahead, r.confirmed = seen.lsn, 0
			} else {
				r.confirmed = history
			}
		}
		r.unconfirmed = nil
	}
	if r.unconfirmed == nil {
		r.unconfirmed = &reading{p, time.Now()}
	}
	switch {
	case r.ahead > 0 && p.lsn == r.ahead:
		return errAhead
	case r.confirmed != history:
		return errUnknownLag
	}
	return nil
}

// primaryLog records the positions of the primary. It may be used concurrently.
type primaryLog struct {
	memory time.Duration // how long a sample is kept

	mu       sync.Mutex
	identity string
	timeline int64
	history  int64    // grows when the samples begin anew, because the primary is another server or was rolled back
	samples  []sample // the oldest sample first

	// stopped is the time of the last sample while the primary does not answer this server. While the primary answers,
	// stopped is nil. A primary that does not answer this server may still answer other servers: the comment of Replicas
	// describes the consequence. Look-ups read stopped without the mutex.
	stopped atomic.Pointer[time.Time]
}

// sample is a measurement of the primary. The log up to the position lsn contains every change that the primary acknowledged
// before the time in the field at.
type sample struct {
	at  time.Time
	lsn int64
}

// addSample adds a sample of the primary. If the server does not answer or is not a primary, addSample adds no sample, and
// sets stopped to the time of the last sample.
func (l *primaryLog) addSample(ctx context.Context, primary *Store) {
	at := time.Now() // before the query, because changes may be acknowledged while the query runs
	p, err := primary.positionOf(ctx, primaryPosition)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || p.recovery {
		if n := len(l.samples); n > 0 {
			last := l.samples[n-1].at // a copy, because slices.Delete moves the samples
			l.stopped.Store(&last)
		}
		return
	}
	if n := len(l.samples); p.identity != l.identity || p.timeline != l.timeline || n > 0 && p.lsn < l.samples[n-1].lsn {
		// The primary is another server or a promoted standby, or it was rolled back.
		l.identity, l.timeline, l.history, l.samples = p.identity, p.timeline, l.history+1, nil
	}
	l.samples = append(l.samples, sample{at, p.lsn})
	if recent := slices.IndexFunc(l.samples, func(s sample) bool { return at.Sub(s.at) <= l.memory }); recent > 0 {
		l.samples = slices.Delete(l.samples, 0, recent)
	}
	l.stopped.Store(nil)
}

// errUnknownLag reports that the primary has not answered yet, that the replica has not yet applied the log up to the
// oldest sample, or that no sample has confirmed a position of the replica yet.
var errUnknownLag = errors.New("the lag of the replica is unknown")

// applied returns a time. A replica at the position p has applied every change that was acknowledged before this time.
func (l *primaryLog) applied(p position) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range slices.Backward(l.samples) {
		if p.identity != l.identity {
			return time.Time{}, errOtherCluster
		}
		if p.timeline != l.timeline {
			return time.Time{}, errTimeline
		}
		if s.lsn <= p.lsn {
			return s.at, nil
		}
	}
	return time.Time{}, errUnknownLag
}

// reference returns the time from which the lag of a replica is computed. While the primary answers, reference returns now.
// While the primary does not answer, reference returns the time of the last sample.
func (l *primaryLog) reference(now time.Time) time.Time {
	if stopped := l.stopped.Load(); stopped != nil {
		return *stopped
	}
	return now
}

// last returns the time of the last sample, or false if there is none.
func (l *primaryLog) last() (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.samples) == 0 {
		return at, false
	}
	return l.samples[len(l.samples)-1].at, true
}

// newest returns the position of the primary in the last sample, the time at which this sample began, and the history of the
// primary. The time is zero if there is no sample.
func (l *primaryLog) newest() (p position, at time.Time, history int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); n > 0 {
		last := l.samples[n-1]
		p, at = position{identity: l.identity, timeline: l.timeline, lsn: last.lsn}, last.at
	}
	return p, at, l.history
}
