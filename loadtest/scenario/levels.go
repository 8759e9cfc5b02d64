package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/report"

	"github.com/redis/go-redis/v9"
)

const (
	// poolLists matches where pools keep their keys in Redis, each under the name of its
	// ledger: the harness counts them itself rather than believe anybody.
	poolLists      = "keypool:{*}:keys"
	levelsPeriod   = 5 * time.Millisecond // between two looks: much less than a batch lasts
	levelsPatience = 2 * time.Second      // the most that one look may take
)

// errLate says that something did not happen in the time that it was given.
var errLate = errors.New("too late")

// level is how many keys there were in the pool at one moment.
type level struct {
	at   time.Time // when the answer had come
	keys int64
}

// levels watches the size of a pool, as Redis says it. It is for one goroutine.
type levels struct {
	client *redis.Client
	list   string // of the only pool of this Redis; "" until it is there
	seen   []level
}

func watchLevels(url string) (*levels, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	opts.ContextTimeoutEnabled = true
	return &levels{client: redis.NewClient(opts)}, nil
}

func (l *levels) close() error { return l.client.Close() }

// until looks again and again until the last of what was seen satisfies enough, and fails
// when that takes longer than patience, or ctx ends.
func (l *levels) until(ctx context.Context, patience time.Duration, what string, enough func(level) bool) (level, error) {
	tick := time.NewTicker(levelsPeriod)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; {
		now, err := l.look(ctx)
		late := time.Now().After(deadline)
		switch {
		case err == nil && enough(now):
			return now, nil
		case err != nil && late: // before, it may be the machine that is busy
			return level{}, fmt.Errorf("count the keys of the pool: %w", err)
		case late:
			return level{}, fmt.Errorf("%w: %s, waited for %v, the pool holds %d keys", errLate, what, patience, now.keys)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return level{}, ctx.Err()
		}
	}
}

func (l *levels) look(ctx context.Context) (level, error) {
	ctx, cancel := context.WithTimeout(ctx, levelsPatience)
	defer cancel()
	if err := l.find(ctx); err != nil {
		return level{}, err
	}
	keys := int64(0)
	if l.list != "" {
		var err error
		if keys, err = l.client.LLen(ctx, l.list).Result(); err != nil {
			return level{}, err
		}
	}
	now := level{at: time.Now(), keys: keys}
	l.seen = append(l.seen, now)
	return now, nil
}

// find looks for the pool while it is not known.
func (l *levels) find(ctx context.Context) error {
	if l.list != "" {
		return nil
	}
	lists, err := l.client.Keys(ctx, poolLists).Result()
	if err == nil && len(lists) > 0 {
		l.list = lists[0]
	}
	return err
}

// since is what was seen from t on.
func since(seen []level, t time.Time) []level {
	i := slices.IndexFunc(seen, func(l level) bool { return !l.at.Before(t) })
	if i < 0 {
		return nil
	}
	return seen[i:]
}

// fewestLooks is how many looks it takes to tell how fast a pool fills.
const fewestLooks = 10

// filling is how many keys a second came into a pool from the look at which the first were
// there to the last one. What the first saw came before, nobody knows how fast.
func filling(seen []level) (rate float64, known bool) {
	begun := slices.IndexFunc(seen, func(l level) bool { return l.keys > 0 })
	if begun < 0 || len(seen)-begun < fewestLooks+2 {
		return 0, false
	}
	from, to := seen[begun], seen[len(seen)-1]
	return float64(to.keys-from.keys) / to.at.Sub(from.at).Seconds(), true
}

// takenOf is how many keys were taken between the first look and the last, and in what time.
func takenOf(seen []level) (keys int64, took time.Duration) {
	if len(seen) == 0 {
		return 0, 0
	}
	from, to := seen[0], seen[len(seen)-1]
	return from.keys - to.keys, to.at.Sub(from.at)
}

// below is when the pool was first seen with fewer keys than that.
func below(seen []level, keys float64) (time.Time, bool) {
	for _, s := range seen {
		if float64(s.keys) < keys {
			return s.at, true
		}
	}
	return time.Time{}, false
}

// through is what was seen until t, and at it.
func through(seen []level, t time.Time) []level {
	i := slices.IndexFunc(seen, func(l level) bool { return l.at.After(t) })
	if i < 0 {
		return seen
	}
	return seen[:i]
}

// keysAfter is how many keys the pool held when it was next seen after t, 0 when it was not.
func keysAfter(seen []level, t time.Time) int64 {
	if later := since(seen, t); len(later) > 0 {
		return later[0].keys
	}
	return 0
}

// keysAt is how many keys the pool held when it was last seen before t.
func keysAt(seen []level, t time.Time) int64 {
	keys := int64(0)
	for _, s := range seen {
		if s.at.After(t) {
			break
		}
		keys = s.keys
	}
	return keys
}

// series is the line of what was seen over the seconds since start.
func (l *levels) series(name string, start time.Time) report.Series {
	s := report.Series{Name: name}
	for _, seen := range l.seen {
		s.XY = append(s.XY, [2]float64{seen.at.Sub(start).Seconds(), float64(seen.keys)})
	}
	return s
}
