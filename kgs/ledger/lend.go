package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

var (
	// ErrNoLease says that a client has no lease of that id, or has none any more.
	ErrNoLease = errors.New("the client has no such lease")
	// ErrLeaseReturned says that a lease was ended by its client.
	ErrLeaseReturned = errors.New("the lease was returned")
	// ErrLeaseExpired says that a lease has ended by itself.
	ErrLeaseExpired = errors.New("the lease has expired")
	// ErrNotOfLease says that a key is not of the lease that it is returned to.
	ErrNotOfLease = errors.New("not a key of this lease, or named twice")
)

const (
	// leaseMemory is how long after its expiry a lease is remembered, and with it the id of
	// the request.
	leaseMemory = 24 * time.Hour
	// leaseRanges bounds the rows that one request of a client can cost.
	leaseRanges = 100
)

// Lease is what the ledger handed to a client program. (A [Lease] is something else:
// a batch in the hands of a Source.)
type Lease struct {
	ID      int64
	Expires time.Time         // by the database's clock
	Ranges  []codespace.Range // in the order in which their codes are handed out

	Repeated bool // the request has had it before; only Lend tells
}

// LeaseRequest is a request for keys.
type LeaseRequest struct {
	Client string
	ID     string        // names the request among all of the client
	Length int           // of the codes, at the least
	Count  int64         // of keys, at least one
	Term   time.Duration // from now to the expiry
}

// Lend hands up to r.Count numbers to a client, as a lease: first those that nobody works on
// any more, from at most leaseRuns places, then new ones. They are fewer than asked for
// where a space ends, and when the ledger skips ahead. ErrExhausted when there are none.
//
// Ranges and lease are one transaction. So a request that is repeated, now or after any
// crash, on this process or another, gives the same lease with the same ranges, whatever
// else is asked for this time. Once the lease is over, it fails with ErrLeaseReturned or
// ErrLeaseExpired; leaseMemory after the expiry the request is forgotten.
//
// A lease ends by the database's clock, and no jump of that clock can hand out a number
// twice: what a client had is never handed out again unless the client returns it.
func (l *Ledger) Lend(ctx context.Context, r LeaseRequest) (lease Lease, err error) {
	if r.Client == "" || r.ID == "" || r.Count < 1 {
		return Lease{}, fmt.Errorf("ledger: lend: %d numbers for request %q of client %q", r.Count, r.ID, r.Client)
	}
	err = l.update(ctx, "lend", func(ctx context.Context, t *tx) error {
		lease, err = t.lend(ctx, r)
		return err
	})
	if err != nil {
		return Lease{}, err
	}
	for _, numbers := range lease.Ranges {
		l.highWater.raise(HighWaterMark{Next: map[int]int64{numbers.Length: numbers.Hi}})
	}
	return lease, nil
}

func (t *tx) lend(ctx context.Context, r LeaseRequest) (Lease, error) {
	lease, err := t.openLease(ctx, `client = $1 AND request_id = $2`, r.Client, r.ID)
	if !errors.Is(err, sql.ErrNoRows) {
		lease.Repeated = true
		return lease, err
	}
	if lease.Ranges, err = t.gather(ctx, r.Length, r.Count); err != nil {
		return Lease{}, err
	}
	lease.ID = t.last + 1
	for _, numbers := range lease.Ranges {
		if _, err := t.insert(ctx, numbers, StateBatch, "", ""); err != nil {
			return Lease{}, err
		}
	}
	if err := t.exec(ctx, `UPDATE kgs_ranges SET lease = $1 WHERE id BETWEEN $1 AND $2`, lease.ID, t.last); err != nil {
		return Lease{}, err
	}
	var expires int64
	err = t.QueryRowContext(ctx, `INSERT INTO kgs_leases (id, client, request_id, state, expires_at)
		VALUES ($1, $2, $3, 'open', `+t.dialect.now+` + $4) RETURNING expires_at`,
		lease.ID, r.Client, r.ID, r.Term.Microseconds()).Scan(&expires)
	lease.Expires = time.UnixMicro(expires).UTC()
	return lease, err
}

// openLease finds a lease that is not over; sql.ErrNoRows when there is none at all.
func (t *tx) openLease(ctx context.Context, where string, args ...any) (lease Lease, err error) {
	var state string
	var expires, now int64
	err = t.QueryRowContext(ctx, `SELECT id, state, expires_at, `+t.dialect.now+` FROM kgs_leases WHERE `+where, args...).
		Scan(&lease.ID, &state, &expires, &now)
	switch {
	case err != nil:
		return Lease{}, err
	case state == "returned":
		return Lease{}, ErrLeaseReturned
	case state == "expired" || expires <= now:
		return Lease{}, ErrLeaseExpired
	}
	lease.Expires = time.UnixMicro(expires).UTC()
	lease.Ranges, err = collect(ctx, t.Tx, scanRange, `SELECT length, lo, hi FROM kgs_ranges WHERE lease = $1 ORDER BY id`, lease.ID)
	return lease, err
}

// gather takes n numbers, or as many as there are.
func (t *tx) gather(ctx context.Context, length int, n int64) (ranges []codespace.Range, err error) {
	for n > 0 && len(ranges) < leaseRanges {
		numbers, err := t.adoptReserved(ctx, length, n)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return nil, err
		}
		ranges, n = append(ranges, numbers), n-numbers.Len()
	}
	if n == 0 {
		return ranges, nil
	}
	left := t.skipped
	numbers, err := t.advance(ctx, length, n)
	if t.skipped > left { // after a rollback: what had a row may have been handed out since
		if err := t.abandonAll(ctx, ranges, kgs.ReasonRollback); err != nil {
			return nil, err
		}
		ranges = nil
	}
	if errors.Is(err, kgs.ErrExhausted) && len(ranges) > 0 {
		return ranges, nil
	}
	if err != nil {
		return nil, err
	}
	return append(ranges, numbers), nil
}
