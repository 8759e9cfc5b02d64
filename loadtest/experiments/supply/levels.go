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

// lookEvery is much less than a batch lasts.
const lookEvery = 5 * time.Millisecond

// errLate says that something did not happen in its time.
var errLate = errors.New("too late")

// level is the number of keys in the pool at one moment.
type level struct {
	at   time.Time // of the answer
	keys int64
}

// levels observes the size of a pool. It is for one goroutine.
type levels struct {
	ask  func(context.Context) (keys int64, err error)
	seen []level
}

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
		return client.LLen(ctx, list).Result() // one call, because a look should take much less than lookEvery
	}}
}

// until looks at the level until enough returns true for it, and returns that level. When this takes
// longer than patience, the error wraps errLate, unless the last look failed. Looks that fail are
// repeated: the machine may be busy.
func (l *levels) until(ctx context.Context, patience time.Duration, what string, enough func(level) bool) (now level, err error) {
	var unseen error
	err = lab.Until(ctx, lookEvery, patience, func(asked context.Context) (bool, error) {
		keys, err := l.ask(asked)
		if asked.Err() == nil { // a look that is cut short explains nothing
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
		err = fmt.Errorf("%w: %s, after %v the pool holds %d keys", errLate, what, patience, now.keys)
	}
	return now, err
}

// must is until for a run that ends when it takes too long.
func (l *levels) must(t *experiment.T, patience time.Duration, what string, enough func(level) bool) level {
	now, err := l.until(t.Context(), patience, what, enough)
	t.Must(err)
	return now
}

// since returns the levels from t on.
func since(seen []level, t time.Time) []level {
	i := slices.IndexFunc(seen, func(l level) bool { return !l.at.Before(t) })
	if i < 0 {
		return nil
	}
	return seen[i:]
}

// keysAt is the first level seen at or after t, else the last one.
func keysAt(seen []level, t time.Time) int64 {
	if later := since(seen, t); len(later) > 0 {
		return later[0].keys
	}
	return seen[len(seen)-1].keys
}

// levelsKept bounds the levels of a fit, which uses the slopes between every two of them, and of a chart.
const levelsKept = 400

// thinned keeps at most levelsKept levels, evenly by their order, the last among them.
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

// line is the levels over the seconds since start, as points of a line.
func line(seen []level, start time.Time) (xy [][2]float64) {
	for _, l := range thinned(seen) {
		xy = append(xy, [2]float64{l.at.Sub(start).Seconds(), float64(l.keys)})
	}
	return xy
}

// decline is how a pool declines that no key reaches: by slope keys per second, from keys at the
// moment zero.
type decline struct {
	zero  time.Time
	keys  float64
	slope float64 // keys per second, 0: unknown
}

// empty is the moment at which the pool holds no key.
func (d decline) empty() time.Time {
	return d.zero.Add(time.Duration(d.keys / d.slope * float64(time.Second)))
}

// predict fits a decline to levels. A pool loses a batch at a time, and its level is exact only
// right after such a step, so only steps count. The slope is the median of the slopes between any
// two steps (the Theil-Sen estimator), which a few late steps do not change. Nothing is known of
// levels that do not decline.
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
