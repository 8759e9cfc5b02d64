package kgs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// EndLease closes the books on a lease of client: unused runs are reserved again, for
// anyone, lost ones are abandoned, and all else is the client's for good: abandoned as
// ReasonClient, since the client's links are not in these books. It tells how many those
// are. Of unused and of lost ones that lie in more than leaseRuns places, only the longest
// runs count as such.
//
// A lease that was returned before is left as it is. ErrNoLease, ErrLeaseExpired and
// ErrNotOfLease change nothing either.
func (l *Ledger) EndLease(ctx context.Context, client string, id int64, unused, lost []Run) (kept int64, err error) {
	err = l.post(ctx, "end lease", func(ctx context.Context, p *posting) error {
		lease, err := p.openLease(ctx, `client = $1 AND id = $2`, client, id)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return ErrNoLease
		case errors.Is(err, ErrLeaseReturned):
			return nil
		case err != nil:
			return err
		}
		kept, err = p.endLease(ctx, lease, unused, lost)
		return err
	})
	if err != nil {
		return 0, err
	}
	return kept, nil
}

func (p *posting) endLease(ctx context.Context, lease ClientLease, unused, lost []Run) (kept int64, err error) {
	if _, err := without(lease.Runs, slices.Concat(unused, lost)); err != nil {
		return 0, err
	}
	unused, lost = longestOf(unused, leaseRuns), longestOf(lost, leaseRuns)
	rest, err := without(lease.Runs, slices.Concat(unused, lost))
	if err != nil {
		return 0, err
	}
	if err := p.exec(ctx, `DELETE FROM kgs_ranges WHERE lease = $1`, lease.ID); err != nil {
		return 0, err
	}
	if err := p.exec(ctx, `UPDATE kgs_leases SET state = 'returned' WHERE id = $1`, lease.ID); err != nil {
		return 0, err
	}
	for _, run := range unused {
		if _, err := p.insert(ctx, run, RangeReserved, "", ""); err != nil {
			return 0, err
		}
	}
	if err := p.abandonAll(ctx, lost, ReasonLostReply); err != nil {
		return 0, err
	}
	return countOf(rest), p.abandonAll(ctx, rest, ReasonClient)
}

// without cuts parts out of runs and gives what is left, by length and number. It fails
// with ErrNotOfLease when a part is not in runs, or in another part.
func without(runs, parts []Run) (rest []Run, err error) {
	parts = slices.SortedFunc(slices.Values(parts), byNumber)
	for _, run := range joined(runs) {
		for len(parts) > 0 && parts[0].Length == run.Length && parts[0].Lo < run.Hi {
			part := parts[0]
			if part.Lo < run.Lo || part.Hi > run.Hi || part.Len() < 1 {
				return nil, fmt.Errorf("%w: %+v", ErrNotOfLease, part)
			}
			if part.Lo > run.Lo {
				rest = append(rest, Run{run.Length, run.Lo, part.Lo})
			}
			run.Lo, parts = part.Hi, parts[1:]
		}
		if run.Len() > 0 {
			rest = append(rest, run)
		}
	}
	if len(parts) > 0 {
		return nil, fmt.Errorf("%w: %+v", ErrNotOfLease, parts[0])
	}
	return rest, nil
}

// joined is runs by length and number, with those in one that touch: a client's codes do
// not tell where one of its runs ends.
func joined(runs []Run) (all []Run) {
	for _, run := range slices.SortedFunc(slices.Values(runs), byNumber) {
		if n := len(all); n > 0 && all[n-1].Length == run.Length && all[n-1].Hi == run.Lo {
			all[n-1].Hi = run.Hi
			continue
		}
		all = append(all, run)
	}
	return all
}

func byNumber(a, b Run) int {
	return cmp.Or(cmp.Compare(a.Length, b.Length), cmp.Compare(a.Lo, b.Lo))
}

// longestOf is the n longest of runs, or all where there are not more.
func longestOf(runs []Run, n int) []Run {
	if len(runs) <= n {
		return runs
	}
	return slices.SortedFunc(slices.Values(runs), func(a, b Run) int { return cmp.Compare(b.Len(), a.Len()) })[:n]
}

// countOf is how many numbers runs hold.
func countOf(runs []Run) (n int64) {
	for _, run := range runs {
		n += run.Len()
	}
	return n
}

const (
	expireAtOnce = 100  // leases, in one change of the ledger, while all others wait for it
	expireRuns   = 200  // rows of leases, likewise, but for the rest of the last lease
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
		err = l.post(ctx, "expire leases", func(ctx context.Context, p *posting) (err error) {
			n, err = p.expireLeases(ctx)
			return err
		})
		if err != nil {
			return kept, err
		}
		kept += n
	}
}

// expireLeases is one change of ExpireLeases. It ends at least one lease that is due.
func (p *posting) expireLeases(ctx context.Context) (kept int64, err error) {
	ids, err := collect(ctx, p.Tx, scanID, `SELECT id FROM kgs_leases
		WHERE state = 'open' AND expires_at <= `+p.dialect.now+` ORDER BY expires_at LIMIT $1`, expireAtOnce)
	if err != nil {
		return 0, err
	}
	var runs []Run
	for _, id := range ids {
		if len(runs) >= expireRuns {
			break
		}
		held, err := collect(ctx, p.Tx, scanRun, `DELETE FROM kgs_ranges WHERE lease = $1 RETURNING length, lo, hi`, id)
		if err != nil {
			return 0, err
		}
		if err := p.exec(ctx, `UPDATE kgs_leases SET state = 'expired' WHERE id = $1`, id); err != nil {
			return 0, err
		}
		runs = append(runs, held...)
	}
	if err := p.abandonAll(ctx, joined(runs), ReasonClient); err != nil {
		return 0, err
	}
	return countOf(runs), p.exec(ctx, `DELETE FROM kgs_leases WHERE id IN (
		SELECT id FROM kgs_leases WHERE state <> 'open' AND expires_at <= `+p.dialect.now+` - $1 ORDER BY expires_at LIMIT $2)`,
		leaseMemory.Microseconds(), forgetAtOnce)
}

func scanID(rows *sql.Rows) (id int64, err error) {
	err = rows.Scan(&id)
	return id, err
}
