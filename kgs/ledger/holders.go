package ledger

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"keypool/kgs"
)

// Renew says that holder is alive; it is to be called once a beatInterval. Reserve and
// Cut say so too. A holder must be known here before it takes anything from a pool.
func (l *Ledger) Renew(ctx context.Context, holder string) error {
	return l.update(ctx, "renew", func(ctx context.Context, p *tx) error {
		return p.exec(ctx, l.dialect.renew, holder)
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

// Sweep declares holders dead whose beat stood still for deadAfter looks, that is calls
// of Sweep at least beatInterval apart, and gives up the batches of all that are dead.
// It tells how many numbers those were, some of which may have been linked, which
// their holder can no longer tell. Only beats count, not times: no clock that jumps
// can end a lease, nor does a process that was frozen itself take others for dead. What
// clients have by [Ledger.Lend] nobody beats for: see ExpireLeases.
//
// Any number of processes may sweep. A crash after it changes nothing.
func (l *Ledger) Sweep(ctx context.Context) (abandoned int64, err error) {
	err = l.update(ctx, "sweep", func(ctx context.Context, p *tx) error {
		seen, err := collect(ctx, p.Tx, scanHeartbeat, `SELECT holder, beat FROM kgs_holders`)
		if err != nil {
			return err
		}
		for _, holder := range l.heartbeats.look(time.Now(), seen) {
			if err := p.exec(ctx, `DELETE FROM kgs_holders WHERE holder = $1`, holder); err != nil {
				return err
			}
		}
		dead, err := collect(ctx, p.Tx, scanRange,
			`DELETE FROM kgs_ranges WHERE state = 'batch' AND lease = 0 AND `+orphan+` RETURNING length, lo, hi`)
		if err != nil {
			return err
		}
		for _, run := range dead {
			abandoned += run.Len()
		}
		return p.abandonAll(ctx, dead, kgs.ReasonCrash)
	})
	if err != nil {
		return 0, err
	}
	return abandoned, nil
}

// Release ends holder in good order: its reserved and shipping ranges can be taken
// over at once, and a batch that it did not settle is for Sweep. It may be repeated.
// After a crash before it, the same happens once Sweep has declared holder dead.
func (l *Ledger) Release(ctx context.Context, holder string) error {
	return l.update(ctx, "release", func(ctx context.Context, p *tx) error {
		err := p.exec(ctx, `UPDATE kgs_ranges SET holder = ''
			WHERE holder = $1 AND state IN ('reserved', 'shipping')`, holder)
		if err != nil {
			return err
		}
		return p.exec(ctx, `DELETE FROM kgs_holders WHERE holder = $1`, holder)
	})
}

const (
	// HeartbeatInterval is how often a process that holds ranges says that it is alive.
	HeartbeatInterval = 5 * time.Second
	// deadAfter is for how many looks a beat must stand still until its holder is dead.
	deadAfter = 6
)

// heartbeats remembers what the sweeps of this process saw of each holder.
type heartbeats struct {
	mu   sync.Mutex
	at   time.Time // of the last look that counted
	seen map[string]sighting
}

// sighting is the beat of a holder, and for how many looks it has been that.
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

// look takes the present beats into account and gives the holders that are dead. A look
// that follows the last one too soon does not count: whoever was frozen has missed
// the beats of the others, and waits for new ones.
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
