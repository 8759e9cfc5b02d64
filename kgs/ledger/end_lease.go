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

// EndLease ends a lease of client. The unused ranges become reserved ranges without a holder.
// The lost ranges are abandoned as ReasonLostReply. The client keeps all other numbers of the
// lease. EndLease abandons these numbers as ReasonClient, because the ledger does not record the
// links of the client. It returns how many numbers the client keeps. EndLease uses only the
// leaseRanges longest ranges of unused and the leaseRanges longest ranges of lost. The client
// keeps the numbers of all other ranges.
//
// EndLease does nothing if the client has already returned the lease. EndLease changes nothing
// if it fails with ErrNoLease, ErrLeaseExpired or ErrNotOfLease.
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
	expireAtOnce = 100  // most leases that one transaction ends; all other changes wait for the transaction
	expireRanges = 200  // most ranges that one transaction ends; the last lease may exceed the limit
	forgetAtOnce = 1000 // most lease records that one transaction deletes
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

// expireLeases runs in one transaction of ExpireLeases. If any lease has expired, expireLeases
// ends at least one.
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
