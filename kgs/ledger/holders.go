package ledger

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"keypool/kgs"
)

// Renew records a heartbeat of holder. A holder calls it once every HeartbeatInterval; Reserve
// and Cut record one too. A holder must be known here before it takes keys from a pool.
func (l *Ledger) Renew(ctx context.Context, holder string) error {
	return l.update(ctx, "renew", func(ctx context.Context, t *tx) error {
		return t.exec(ctx, l.dialect.renew, holder)
	})
}

// Holders are the processes that are not known to be dead.
func (l *Ledger) Holders(ctx context.Context) (holders []string, err error) {
	err = l.view(ctx, "holders", func(tx *sql.Tx) error {
		beats, err := collect(ctx, tx, scanHeartbeat, `SELECT holder, beat FROM kgs_holders`)
		for _, b := range beats {
			holders = append(holders, b.holder)
		}
		return err
	})
	return holders, err
}

// Sweep declares holders dead that had no heartbeat for deadAfter looks, which are calls of
// Sweep at least HeartbeatInterval apart, and abandons the batches of all dead holders. It
// returns how many numbers those were; some of them may be linked. It counts heartbeats and
// compares no times: a clock that is set ahead declares no holder dead, and neither does a
// process that was frozen itself. Leases have no heartbeats: see ExpireLeases.
//
// Any number of processes may sweep. A crash after it changes nothing.
func (l *Ledger) Sweep(ctx context.Context) (abandoned int64, err error) {
	err = l.update(ctx, "sweep", func(ctx context.Context, t *tx) error {
		seen, err := collect(ctx, t.Tx, scanHeartbeat, `SELECT holder, beat FROM kgs_holders`)
		if err != nil {
			return err
		}
		for _, holder := range l.heartbeats.look(time.Now(), seen) {
			if err := t.exec(ctx, `DELETE FROM kgs_holders WHERE holder = $1`, holder); err != nil {
				return err
			}
		}
		dead, err := collect(ctx, t.Tx, scanRange,
			`DELETE FROM kgs_ranges WHERE state = 'batch' AND lease = 0 AND `+orphan+` RETURNING length, lo, hi`)
		if err != nil {
			return err
		}
		for _, numbers := range dead {
			abandoned += numbers.Len()
		}
		return t.abandonAll(ctx, dead, kgs.ReasonCrash)
	})
	if err != nil {
		return 0, err
	}
	return abandoned, nil
}

// Release removes holder: other holders can take over its reserved and shipping ranges at
// once, and Sweep abandons a batch that it did not settle. It may be repeated.
// After a crash before it, the same happens once Sweep has declared holder dead.
func (l *Ledger) Release(ctx context.Context, holder string) error {
	return l.update(ctx, "release", func(ctx context.Context, t *tx) error {
		err := t.exec(ctx, `UPDATE kgs_ranges SET holder = ''
			WHERE holder = $1 AND state IN ('reserved', 'shipping')`, holder)
		if err != nil {
			return err
		}
		return t.exec(ctx, `DELETE FROM kgs_holders WHERE holder = $1`, holder)
	})
}

const (
	// HeartbeatInterval is the time between two heartbeats of a holder.
	HeartbeatInterval = 5 * time.Second
	// deadAfter is how many looks without a new heartbeat make a holder dead.
	deadAfter = 6
)

// heartbeats is what the sweeps of this process saw of each holder.
type heartbeats struct {
	mu   sync.Mutex
	at   time.Time // of the last look that counted
	seen map[string]sighting
}

// sighting is the last heartbeat of a holder, and how many looks saw no newer one.
type sighting struct {
	beat  int64
	looks int
}

type heartbeat struct {
	holder string
	beat   int64
}

func scanHeartbeat(rows *sql.Rows) (b heartbeat, err error) {
	err = rows.Scan(&b.holder, &b.beat)
	return b, err
}

// look compares the present heartbeats with the last look and returns the dead holders. A
// look that follows the last one too soon does not count: a process that was frozen has
// missed the heartbeats of the others, and waits for new ones.
func (b *heartbeats) look(now time.Time, present []heartbeat) (dead []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.at) < HeartbeatInterval*9/10 {
		return nil
	}
	b.at = now
	seen := make(map[string]sighting, len(present))
	for _, h := range present {
		s := b.seen[h.holder]
		if s.beat != h.beat {
			s = sighting{beat: h.beat}
		} else {
			s.looks++
		}
		if s.looks >= deadAfter {
			dead = append(dead, h.holder)
			continue
		}
		seen[h.holder] = s
	}
	b.seen = seen
	return dead
}
