package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

var (
	// ErrNoLease means that the client has no lease with the given id, or that the record of the lease
	// is deleted.
	ErrNoLease = errors.New("the client has no such lease")
	// ErrLeaseReturned means that the client has already returned the lease.
	ErrLeaseReturned = errors.New("the lease was returned")
	// ErrLeaseExpired means that the lease has expired, or that a skip-ahead has ended it.
	ErrLeaseExpired = errors.New("the lease has expired")
	// ErrNotOfLease means that a returned key does not belong to the lease, or occurs twice.
	ErrNotOfLease = errors.New("the key does not belong to this lease, or occurs twice")
)

const (
	// leaseMemory is how long the ledger keeps the record of a lease after the lease expires. The record
	// contains the id of the request.
	leaseMemory = 24 * time.Hour
	// leaseRanges limits how many rows one request of a client can add. The limit applies separately to:
	//
	//   - the reserved ranges that Lend adopts;
	//   - the unused ranges that EndLease accepts;
	//   - the lost ranges that EndLease accepts.
	leaseRanges = 100
	// maxReserved limits the reserved ranges in the ledger: EndLease accepts an unused range only while the ledger has
	// fewer reserved ranges. The limit keeps the queries for reserved ranges fast, even if clients return scattered keys.
	maxReserved = 1000
)

// Lease is keys on loan to a client program.
type Lease struct {
	ID      int64
	Expires time.Time         // time of the expiry by the clock of the database
	Ranges  []codespace.Range // ranges in the order in which to hand out their codes

	Repeated bool // whether an earlier request with the same id made the lease; set by Lend
}

// LeaseRequest is a request for keys.
type LeaseRequest struct {
	Client string
	ID     string        // id of the request, unique among the requests of the client
	Length int           // minimum length of the codes
	Count  int64         // number of keys, at least one
	Term   time.Duration // time from now to the expiry
}

// Lend lends up to r.Count numbers to a client as a lease. It first uses at most leaseRanges
// reserved ranges without a live holder. Then it uses new numbers. Lend lends fewer numbers than
// requested at the end of a code length and after a skip-ahead. It fails with ErrExhausted if no
// numbers are left.
//
// One transaction stores the lease and its ranges. Therefore a repeated request returns the same lease with the same
// ranges, even after a crash and even through another process. Lend recognises a repeated request by its client and its
// id, and ignores its other fields. After the end of the lease, a repeated request fails with ErrLeaseReturned or
// ErrLeaseExpired. The ledger forgets the request 24 hours after the expiry of the lease.
//
// A lease ends according to the clock of the database. Even if the clock is wrong, no number is
// handed out twice, because only numbers that the client returned unused are handed out again.
func (l *Ledger) Lend(ctx context.Context, r LeaseRequest) (lease Lease, err error) {
	if r.Client == "" || r.ID == "" || r.Count < 1 {
		return Lease{}, fmt.Errorf("ledger: lend: invalid request: %d numbers for request %q of client %q", r.Count, r.ID, r.Client)
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

// openLease returns the lease that the SQL condition where selects. It fails with sql.ErrNoRows if there is no
// record of the lease, and with ErrLeaseReturned or ErrLeaseExpired if the lease has ended.
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

// gather takes n numbers. It takes fewer numbers if the code length has fewer numbers left, or after
// a skip-ahead.
func (t *tx) gather(ctx context.Context, length int, n int64) (ranges []codespace.Range, err error) {
	ranges, err = t.adoptReserved(ctx, length, n, 1, leaseRanges)
	if err != nil {
		return nil, err
	}
	if n -= codespace.Count(ranges); n == 0 {
		return ranges, nil
	}
	rolledBack := t.rolledBack
	numbers, err := t.advance(ctx, length, n)
	if t.rolledBack > rolledBack { // the database was rolled back, so another process may have issued the adopted numbers before
		if err := t.abandonAll(ctx, ranges, kgs.ReasonRollback); err != nil {
			return nil, err
		}
		t.rolledBack += codespace.Count(ranges)
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

// Ended counts the numbers that the end of a lease abandoned.
type Ended struct {
	Kept int64 // numbers that were abandoned as ReasonClient
	Lost int64 // numbers that were abandoned as ReasonLostReply
}

// EndLease ends a lease of client. The unused ranges become reserved ranges without a holder. The lost ranges are
// abandoned as ReasonLostReply. The client keeps all other numbers of the lease. EndLease abandons these numbers as
// ReasonClient, because the ledger does not record the links of the client. It returns how many numbers it abandoned
// for each of these two reasons. EndLease accepts only the 100 longest unused ranges and the 100 longest lost ranges
// (leaseRanges). It accepts fewer unused ranges if the ledger would otherwise have more than 1000 reserved ranges
// (maxReserved). The client keeps the numbers of each range that EndLease does not accept.
//
// EndLease does nothing if the client has already returned the lease. EndLease changes nothing
// if it fails with ErrNoLease, ErrLeaseExpired or ErrNotOfLease.
func (l *Ledger) EndLease(ctx context.Context, client string, id int64, unused, lost []codespace.Range) (ended Ended, err error) {
	err = l.update(ctx, "end lease", func(ctx context.Context, t *tx) error {
		lease, err := t.openLease(ctx, `client = $1 AND id = $2`, client, id)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return ErrNoLease
		case errors.Is(err, ErrLeaseReturned):
			return nil
		case err != nil:
			return err
		}
		ended, err = t.endLease(ctx, lease, unused, lost)
		return err
	})
	if err != nil {
		return Ended{}, err
	}
	return ended, nil
}

const (
	// The limits for one transaction are small, because all other changes wait for the transaction.
	expireAtOnce = 100  // maximum number of leases that one transaction ends
	expireRanges = 200  // a transaction that has abandoned this number of ranges ends no further lease
	forgetAtOnce = 1000 // maximum number of lease records that one transaction deletes
)

// ExpireLeases ends the leases that have expired according to the clock of the database. It
// deletes the records of leases that expired more than leaseMemory ago. It abandons the numbers
// of an expired lease as ReasonClient, because the client may have used the keys and may still
// use them. ExpireLeases returns the number of abandoned numbers. Several processes may call it
// at once. If there is nothing to do, it does not lock the ledger.
func (l *Ledger) ExpireLeases(ctx context.Context) (kept int64, err error) {
	for {
		due := false
		err := l.read.QueryRowContext(ctx, `SELECT
			EXISTS (SELECT 1 FROM kgs_leases WHERE state = 'open' AND expires_at <= `+l.dialect.now+`) OR
			EXISTS (SELECT 1 FROM kgs_leases WHERE state <> 'open' AND expires_at <= `+l.dialect.now+` - $1)`,
			leaseMemory.Microseconds()).Scan(&due)
		if err != nil {
			return kept, fmt.Errorf("ledger: expire leases: %w", err)
		}
		if !due {
			return kept, nil
		}
		n := int64(0)
		err = l.update(ctx, "expire leases", func(ctx context.Context, t *tx) (err error) {
			n, err = t.expireLeases(ctx)
			return err
		})
		if err != nil {
			return kept, err
		}
		kept += n
	}
}

func scanID(rows *sql.Rows) (id int64, err error) {
	err = rows.Scan(&id)
	return id, err
}

func (t *tx) endLease(ctx context.Context, lease Lease, unused, lost []codespace.Range) (Ended, error) {
	if _, err := codespace.Without(lease.Ranges, slices.Concat(unused, lost)); err != nil {
		return Ended{}, fmt.Errorf("%w: %w", ErrNotOfLease, err)
	}
	var reserved int
	err := t.QueryRowContext(ctx, `SELECT count(*) FROM kgs_ranges WHERE state = 'reserved'`).Scan(&reserved)
	if err != nil {
		return Ended{}, err
	}
	unused = codespace.Longest(unused, max(0, min(leaseRanges, maxReserved-reserved)))
	lost = codespace.Longest(lost, leaseRanges)
	rest, err := codespace.Without(lease.Ranges, slices.Concat(unused, lost))
	if err != nil {
		return Ended{}, err
	}
	if err := t.exec(ctx, `DELETE FROM kgs_ranges WHERE lease = $1`, lease.ID); err != nil {
		return Ended{}, err
	}
	if err := t.exec(ctx, `UPDATE kgs_leases SET state = 'returned' WHERE id = $1`, lease.ID); err != nil {
		return Ended{}, err
	}
	for _, numbers := range unused {
		if _, err := t.insert(ctx, numbers, StateReserved, "", ""); err != nil {
			return Ended{}, err
		}
	}
	if err := t.abandonAll(ctx, lost, kgs.ReasonLostReply); err != nil {
		return Ended{}, err
	}
	return Ended{codespace.Count(rest), codespace.Count(lost)}, t.abandonAll(ctx, rest, kgs.ReasonClient)
}

// expireLeases is one transaction of ExpireLeases: it ends leases and deletes records, within the limits above. It
// returns the number of abandoned numbers. If any lease has expired, it ends at least one lease, so ExpireLeases makes
// progress.
func (t *tx) expireLeases(ctx context.Context) (kept int64, err error) {
	ids, err := collect(ctx, t.Tx, scanID, `SELECT id FROM kgs_leases
		WHERE state = 'open' AND expires_at <= `+t.dialect.now+` ORDER BY expires_at LIMIT $1`, expireAtOnce)
	if err != nil {
		return 0, err
	}
	var ranges []codespace.Range
	for _, id := range ids {
		if len(ranges) >= expireRanges {
			break
		}
		held, err := collect(ctx, t.Tx, scanRange, `DELETE FROM kgs_ranges WHERE lease = $1 RETURNING length, lo, hi`, id)
		if err != nil {
			return 0, err
		}
		if err := t.exec(ctx, `UPDATE kgs_leases SET state = 'expired' WHERE id = $1`, id); err != nil {
			return 0, err
		}
		ranges = append(ranges, held...)
	}
	if err := t.abandonAll(ctx, codespace.Joined(ranges), kgs.ReasonClient); err != nil {
		return 0, err
	}
	return codespace.Count(ranges), t.exec(ctx, `DELETE FROM kgs_leases WHERE id IN (
		SELECT id FROM kgs_leases WHERE state <> 'open' AND expires_at <= `+t.dialect.now+` - $1 ORDER BY expires_at LIMIT $2)`,
		leaseMemory.Microseconds(), forgetAtOnce)
}
