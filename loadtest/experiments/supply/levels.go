package supply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// lookEvery is the interval between two looks at the level. The server takes batches at much longer
// intervals, so each take of a batch is visible in the levels.
const lookEvery = 5 * time.Millisecond

// errLate reports that an event did not happen in the time allowed.
var errLate = errors.New("too late")

// level is the number of keys in the pool at one time.
type level struct {
	at   time.Time // when Redis answered
	keys int64
}

// levels observes the level of a pool. Only one goroutine may use it.
type levels struct {
	ask  func(context.Context) (keys int64, err error)
	seen []level
}

// watchLevels returns an observer of the pool in the Redis at redisURL.
func watchLevels(r lab.T, redisURL string) *levels {
	client, list := lab.RedisClient(r, redisURL), ""
	return &levels{ask: func(ctx context.Context) (int64, error) {
		if list == "" {
			lists, err := client.Keys(ctx, "keypool:{*}:keys").Result()
			if err != nil || len(lists) == 0 { // there is no pool yet
				return 0, err
			}
			list = lists[0]
		}
		return client.LLen(ctx, list).Result() // a look is a single call, so it takes much less time than lookEvery
	}}
}

// await reads the level repeatedly and returns the first level for which enough returns true. It repeats a look
// that fails, because the machine may be busy. If await finds no such level within patience and its last look
// succeeded, its error wraps errLate. If the last look failed, the error wraps the error of this look instead.
func (l *levels) await(ctx context.Context, patience time.Duration, what string, enough func(level) bool) (now level, err error) {
	var unseen error
	err = lab.Until(ctx, lookEvery, patience, func(asked context.Context) (bool, error) {
		keys, err := l.ask(asked)
		if asked.Err() == nil { // if the context of a look has ended, the error of the look says nothing about Redis
			unseen = err
		}
		if err != nil {
			return false, err
		}
		now = level{at: time.Now(), keys: keys}
		l.seen = append(l.seen, now)
		return enough(now), nil
	})
	if err != nil && unseen == nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: for %v, the run did not observe that %s; the pool holds %d keys", errLate, patience, what, now.keys)
	}
	return now, err
}

// must is like await, but it ends the run if await returns an error.
func (l *levels) must(t *experiment.T, patience time.Duration, what string, enough func(level) bool) level {
	now, err := l.await(t.Context(), patience, what, enough)
	t.Must(err)
	return now
}

// since returns the levels that were observed at or after t.
func since(seen []level, t time.Time) []level {
	i := slices.IndexFunc(seen, func(l level) bool { return !l.at.Before(t) })
	if i < 0 {
		return nil
	}
	return seen[i:]
}

// keysAt returns the number of keys of the first level observed at or after t. If there is no such level, it
// returns the number of keys of the last level.
func keysAt(seen []level, t time.Time) int64 {
	if later := since(seen, t); len(later) > 0 {
		return later[0].keys
	}
	return seen[len(seen)-1].keys
}

// levelsKept is the greatest number of levels in a fit or a chart. More levels would make a fit slow, because it
// computes a slope for each pair of levels.
const levelsKept = 400

// thinned returns at most levelsKept of the levels, with even gaps between their indexes. It keeps the last
// level.
func thinned(seen []level) []level {
	if len(seen) <= levelsKept {
		return seen
	}
	kept := make([]level, levelsKept)
	for i := range kept {
		kept[i] = seen[(i+1)*len(seen)/levelsKept-1]
	}
	return kept
}

// line returns the levels as points of a line. The first coordinate is the time since start in seconds.
func line(seen []level, start time.Time) (xy [][2]float64) {
	for _, l := range thinned(seen) {
		xy = append(xy, [2]float64{l.at.Sub(start).Seconds(), float64(l.keys)})
	}
	return xy
}

// decline is a line that describes the level of a pool that gets no new keys.
type decline struct {
	zero  time.Time // when the line begins
	keys  float64   // number of keys at that time
	slope float64   // keys per second by which the level falls; 0 if unknown
}

// empty returns the time at which the pool holds no keys.
func (d decline) empty() time.Time {
	return d.zero.Add(time.Duration(d.keys / d.slope * float64(time.Second)))
}

// predict fits a decline to levels. Servers take whole batches, so the level falls in steps and does not change
// between two steps. Therefore predict uses only the first level after each step. The slope is the median of the
// slopes between all pairs of steps (the Theil-Sen estimator), because a few late steps hardly change this
// median. If the levels do not fall in at least three steps, the slope is unknown.
func predict(seen []level) decline {
	var steps []level
	for i := range seen {
		if i > 0 && seen[i].keys < seen[i-1].keys {
			steps = append(steps, seen[i])
		}
	}
	if len(steps) < 3 {
		return decline{}
	}
	var slopes, levels measure.Series
	points := line(steps, steps[0].at)
	for i, a := range points {
		for _, b := range points[:i] {
			if a[0] > b[0] {
				slopes = append(slopes, (b[1]-a[1])/(a[0]-b[0]))
			}
		}
	}
	slope := slopes.Median()
	for _, p := range points {
		levels = append(levels, p[1]+slope*p[0])
	}
	return decline{zero: steps[0].at, keys: levels.Median(), slope: max(0, slope)}
}
