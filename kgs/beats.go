package kgs

import (
	"database/sql"
	"sync"
	"time"
)

const (
	// beatInterval is how often a process that holds ranges says that it is alive.
	beatInterval = 5 * time.Second
	// deadAfter is for how many looks a beat must stand still until its holder is dead.
	deadAfter = 6
)

// beats remembers what the sweeps of this process saw of each holder.
type beats struct {
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

func scanBeat(rows *sql.Rows) (b heartbeat, err error) {
	err = rows.Scan(&b.holder, &b.beat)
	return b, err
}

// look takes the present beats into account and gives the holders that are dead. A look
// that follows the last one too soon does not count: whoever was frozen has missed
// the beats of the others, and waits for new ones.
func (b *beats) look(now time.Time, present []heartbeat) (dead []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.at) < beatInterval*9/10 {
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
