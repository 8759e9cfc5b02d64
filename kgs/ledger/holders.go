package ledger

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// Renew records a heartbeat of holder. A holder calls Renew once every HeartbeatInterval. Reserve
// and Cut record a heartbeat too. Before a holder takes keys from a pool, it must have a heartbeat in
// the ledger, because a holder without a heartbeat counts as dead.
func (l *Ledger) Renew(ctx context.Context, holder string) error {
	return l.update(ctx, "renew", func(ctx context.Context, t *tx) error {
		return t.exec(ctx, l.dialect.renew, holder)
	})
}

// Holders returns the holders that have a heartbeat and are not declared dead.
func (l *Ledger) Holders(ctx context.Context) (holders []string, err error) {
	err = l.view(ctx, "holders", func(tx *sql.Tx) error {
		all, err := collect(ctx, tx, scanHeartbeat, `SELECT holder, beat FROM kgs_holders`)
		for _, h := range all {
			holders = append(holders, h.holder)
		}
		return err
	})
	return holders, err
}

// Sweep declares holders dead and abandons the batches of dead holders. A call of Sweep is a look if at least 9/10 of a
// HeartbeatInterval has passed since the previous look of this process. A look compares the heartbeats with those of the
// previous look. A holder is dead if six looks in a row (deadAfter) find no new heartbeat. Sweep returns how many numbers
// it abandoned. Some of these numbers may have links.
//
// Sweep counts heartbeats and does not compare timestamps of the database. Therefore it does not declare a
// living holder dead, even if the database clock is set forward or the process that calls Sweep freezes.
// Sweep ignores leases, because a lease has no heartbeats. ExpireLeases ends leases.
//
// Several processes may call Sweep at once. A crash of the caller after Sweep has no effect.
func (l *Ledger) Sweep(ctx context.Context) (abandoned int64, err error) {
	var silent []string
	err = l.update(ctx, "sweep", func(ctx context.Context, t *tx) error {
		seen, err := collect(ctx, t.Tx, scanHeartbeat, `SELECT holder, beat FROM kgs_holders`)
		if err != nil {
			return err
		}
		silent = l.heartbeats.observe(time.Now(), seen)
		for _, holder := range silent {
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
		return t.abandonAll(ctx, codespace.Joined(dead), kgs.ReasonCrash) // one range needs fewer statements than its parts
	})
	if err != nil {
		return 0, err
	}
	l.heartbeats.forget(silent)
	return abandoned, nil
}

// Release removes holder. Other holders can then take over its reserved and shipping ranges at
// once, and the next Sweep abandons its unsettled batches. The caller may repeat Release. If
// holder crashes before Release, Sweep has the same effect when it declares holder dead.
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
	// deadAfter is the number of looks without a new heartbeat after which a holder is dead.
	deadAfter = 6
)

// heartbeats records what the Sweep calls of this process have read: the last heartbeat of each
// holder.
type heartbeats struct {
	mu   sync.Mutex
	at   time.Time // time of the last look
	seen map[string]sighting
}

// sighting is the last heartbeat of a holder, and the number of later looks without a newer
// heartbeat.
type sighting struct {
	count int64 // number of heartbeats since the holder registered
	looks int   // number of later looks without a newer heartbeat
}

type heartbeat struct {
	holder string
	count  int64 // number of heartbeats since the holder registered
}

func scanHeartbeat(rows *sql.Rows) (h heartbeat, err error) {
	err = rows.Scan(&h.holder, &h.count)
	return h, err
}

// observe compares the present heartbeats with the heartbeats of the last look and returns the dead
// holders. It does nothing if the last look is too recent. After a freeze of this process, a
// late call counts as only one look, so the holders have time for new heartbeats.
//
// The change that declares a holder dead may fail. Therefore later looks return the holder again, until
// the holder has a new heartbeat, or until the method forget deletes its sighting.
func (b *heartbeats) observe(now time.Time, present []heartbeat) (dead []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.at) < HeartbeatInterval*9/10 {
		return nil
	}
	b.at = now
	seen := make(map[string]sighting, len(present))
	for _, h := range present {
		s := b.seen[h.holder]
		if s.count != h.count {
			s = sighting{count: h.count}
		} else {
			s.looks++
		}
		if s.looks >= deadAfter {
			dead = append(dead, h.holder)
		}
		seen[h.holder] = s
	}
	b.seen = seen
	return dead
}

// forget deletes the sightings of holders that the ledger no longer contains. If such a holder registers
// again, its heartbeat count may be the same as before. Without forget, the holder would then count as dead.
func (b *heartbeats) forget(holders []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, holder := range holders {
		delete(b.seen, holder)
	}
}
