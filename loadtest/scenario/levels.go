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
	levelsPeriod   = 5 * time.Millisecond  // between two looks: much less than a batch lasts
	levelsPatience = 2 * time.Second       // the most that one look may take
	lookPause      = 50 * time.Millisecond // after one that failed
	lookSilence    = 10 * time.Second      // for so long looks may fail before the run does
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
	ask    func(context.Context) (keys int64, err error)
	seen   []level
}

func watchLevels(url string) (*levels, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	opts.ContextTimeoutEnabled = true
	l := &levels{client: redis.NewClient(opts)}
	l.ask = l.count
	return l, nil
}

func (l *levels) close() error { return l.client.Close() }

// until looks again and again until the last of what was seen satisfies enough, and fails
// when that takes longer than patience, or ctx ends. It goes by looks that succeed, and fails
// by one that does not only when none has for long: it may be the machine that is busy.
func (l *levels) until(ctx context.Context, patience time.Duration, what string, enough func(level) bool) (level, error) {
	tick := time.NewTicker(levelsPeriod)
	defer tick.Stop()
	deadline, answered := time.Now().Add(patience), time.Now()
	for {
		now, err := l.look(ctx)
		late := time.Now().After(deadline)
		switch {
		case err == nil && enough(now):
			return now, nil
		case err == nil && late:
			return level{}, fmt.Errorf("%w: %s, waited for %v, the pool holds %d keys", errLate, what, patience, now.keys)
		case err == nil:
			answered = now.at
		case late && time.Since(answered) > lookSilence:
			return level{}, fmt.Errorf("count the keys of the pool: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return level{}, ctx.Err()
		}
	}
}

// insist asks again until it is answered, and fails with what ask last failed with when
// there was no answer for long, or ctx has ended.
func insist[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for begun := time.Now(); ; {
		answer, err := ask(ctx)
		if err == nil || ctx.Err() != nil || time.Since(begun) > lookSilence {
			return answer, err
		}
		pause(ctx, lookPause)
	}
}

func (l *levels) look(ctx context.Context) (level, error) {
	ctx, cancel := context.WithTimeout(ctx, levelsPatience)
	defer cancel()
	keys, err := l.ask(ctx)
	if err != nil {
		return level{}, err
	}
	now := level{at: time.Now(), keys: keys}
	l.seen = append(l.seen, now)
	return now, nil
}

// count is how many keys Redis says there are, 0 while there is no pool.
func (l *levels) count(ctx context.Context) (int64, error) {
	if err := l.find(ctx); err != nil || l.list == "" {
		return 0, err
	}
	return l.client.LLen(ctx, l.list).Result()
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
