package supply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"keypool/loadtest/lab"

	"github.com/redis/go-redis/v9"
)

const (
	poolLists  = "keypool:{*}:keys"    // where a pool keeps its keys in Redis
	lookEvery  = 5 * time.Millisecond  // much less than a batch lasts
	lookLimit  = 2 * time.Second       // of one look
	silence    = 10 * time.Second      // how long looks may fail before the run fails
	retryEvery = 50 * time.Millisecond // of what is asked until there is an answer
)

// errLate says that something did not happen in its time.
var errLate = errors.New("too late")

// level is the number of keys in the pool at one moment.
type level struct {
	at   time.Time // of the answer
	keys int64
}

// levels observes the size of a pool. It is for one goroutine.
type levels struct {
	client *redis.Client
	list   string // of the only pool in this Redis, "" while there is none
	ask    func(context.Context) (keys int64, err error)
	seen   []level
}

func watchLevels(r lab.T, redisURL string) *levels {
	l := &levels{client: lab.RedisClient(r, redisURL)}
	l.ask = l.count
	return l
}

// until looks at the level until enough returns true for it, and returns that level. When this takes
// longer than patience, the error wraps errLate. Looks that fail are repeated: the machine may be
// busy. They are an error when none succeeded for long.
func (l *levels) until(ctx context.Context, patience time.Duration, what string, enough func(level) bool) (level, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	deadline, answered := time.Now().Add(patience), time.Now()
	for {
		now, err := l.look(ctx)
		late := time.Now().After(deadline)
		switch {
		case err == nil && enough(now):
			return now, nil
		case err == nil && late:
			return level{}, fmt.Errorf("%w: %s, after %v the pool holds %d keys", errLate, what, patience, now.keys)
		case err == nil:
			answered = now.at
		case late && time.Since(answered) > silence:
			return level{}, fmt.Errorf("count the keys of the pool: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return level{}, ctx.Err()
		}
	}
}

func (l *levels) look(ctx context.Context) (level, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	keys, err := l.ask(ctx)
	if err != nil {
		return level{}, err
	}
	now := level{at: time.Now(), keys: keys}
	l.seen = append(l.seen, now)
	return now, nil
}

// count asks Redis for the length of the list, 0 while there is no pool.
func (l *levels) count(ctx context.Context) (int64, error) {
	if l.list == "" {
		lists, err := l.client.Keys(ctx, poolLists).Result()
		if err != nil || len(lists) == 0 {
			return 0, err
		}
		l.list = lists[0]
	}
	return l.client.LLen(ctx, l.list).Result()
}

// memory is what Redis uses in all, in bytes. It asks until there is an answer.
func (l *levels) memory(ctx context.Context) (bytes int64, err error) {
	err = lab.Until(ctx, retryEvery, silence, func(ctx context.Context) (bool, error) {
		info, err := l.client.InfoMap(ctx, "memory").Result()
		if err == nil {
			bytes, err = strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
		}
		return err == nil, err
	})
	return bytes, err
}

// since returns the levels from t on.
func since(seen []level, t time.Time) []level {
	i := slices.IndexFunc(seen, func(l level) bool { return !l.at.Before(t) })
	if i < 0 {
		return nil
	}
	return seen[i:]
}

// through returns the levels until t, the one at t included.
func through(seen []level, t time.Time) []level {
	i := slices.IndexFunc(seen, func(l level) bool { return l.at.After(t) })
	if i < 0 {
		return seen
	}
	return seen[:i]
}

// below returns when the pool was first seen with fewer keys.
func below(seen []level, keys float64) (time.Time, bool) {
	i := slices.IndexFunc(seen, func(l level) bool { return float64(l.keys) < keys })
	if i < 0 {
		return time.Time{}, false
	}
	return seen[i].at, true
}

// keysAfter is the next level seen at or after t, 0 for none.
func keysAfter(seen []level, t time.Time) int64 {
	if later := since(seen, t); len(later) > 0 {
		return later[0].keys
	}
	return 0
}

// keysAt is the last level seen until t, 0 for none.
func keysAt(seen []level, t time.Time) int64 {
	if earlier := through(seen, t); len(earlier) > 0 {
		return earlier[len(earlier)-1].keys
	}
	return 0
}

// line is the levels over the seconds since start, as points of a line.
func line(seen []level, start time.Time) (xy [][2]float64) {
	for _, l := range seen {
		xy = append(xy, [2]float64{l.at.Sub(start).Seconds(), float64(l.keys)})
	}
	return xy
}

// chartPoints is how many points of a line are kept: the report needs no more.
const chartPoints = 400

// thinned keeps at most chartPoints points, evenly by their order, the last among them.
func thinned(xy [][2]float64) [][2]float64 {
	if len(xy) <= chartPoints {
		return xy
	}
	kept := make([][2]float64, 0, chartPoints)
	for i := range chartPoints {
		kept = append(kept, xy[(i+1)*len(xy)/chartPoints-1])
	}
	return kept
}
