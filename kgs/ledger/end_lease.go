package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// EndLease ends a lease of client: unused ranges are reserved again, for
// anyone, lost ones are abandoned, and all else is the client's for good: abandoned as
// ReasonClient, since the ledger does not know the client's links. It tells how many those
// are. Of unused and of lost ones that lie in more than leaseRuns places, only the longest
// ranges count as such.
//
// A lease that was returned before is left as it is. ErrNoLease, ErrLeaseExpired and
// ErrNotOfLease change nothing either.
func (l *Ledger) EndLease(ctx context.Context, client string, id int64, unused, lost []codespace.Range) (kept int64, err error) {
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
		kept, err = t.endLease(ctx, lease, unused, lost)
		return err
	})
	if err != nil {
		return 0, err
	}
	return kept, nil
}

const (
	expireAtOnce = 100  // leases, in one change of the ledger, while all others wait for it
	expireRanges = 200  // rows of leases, likewise, but for the rest of the last lease
	forgetAtOnce = 1000 // rows, likewise
)

// ExpireLeases ends the leases whose time is over, by the database's clock, and forgets
// those that ended long ago. What such a lease held is abandoned as ReasonClient: nobody
// knows what its client did with the keys, which may even go on to use them. It tells how
// many keys those are. Any number of processes may call it; where nothing is due it
// changes nothing and keeps nobody waiting.
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

func (t *tx) endLease(ctx context.Context, lease Lease, unused, lost []codespace.Range) (kept int64, err error) {
	if _, err := codespace.Without(lease.Ranges, slices.Concat(unused, lost)); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotOfLease, err)
	}
	unused, lost = codespace.Longest(unused, leaseRanges), codespace.Longest(lost, leaseRanges)
	rest, err := codespace.Without(lease.Ranges, slices.Concat(unused, lost))
	if err != nil {
		return 0, err
	}
	if err := t.exec(ctx, `DELETE FROM kgs_ranges WHERE lease = $1`, lease.ID); err != nil {
		return 0, err
	}
	if err := t.exec(ctx, `UPDATE kgs_leases SET state = 'returned' WHERE id = $1`, lease.ID); err != nil {
		return 0, err
	}
	for _, numbers := range unused {
		if _, err := t.insert(ctx, numbers, StateReserved, "", ""); err != nil {
			return 0, err
		}
	}
	if err := t.abandonAll(ctx, lost, kgs.ReasonLostReply); err != nil {
		return 0, err
	}
	return codespace.Count(rest), t.abandonAll(ctx, rest, kgs.ReasonClient)
}

// expireLeases is one change of ExpireLeases. It ends at least one lease that is due.
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
