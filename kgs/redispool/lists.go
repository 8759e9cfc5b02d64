package redispool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"keypool/kgs"
)

// Lists is a pool that consists of one list or more. Each list is a [Pool] in its own hash slot of Redis, with its own
// epochs and its own breaker. In a Redis Cluster, the lists are spread over the masters. If a master does not answer, the
// keys of the lists on the other masters are still available.
//
// All methods are safe for concurrent use. They return at the latest when ctx ends.
type Lists struct {
	lists []*list
}

// list is one list of a pool.
type list struct {
	*Pool
	breaker *kgs.Breaker
	size    atomic.Int64 // keys in the list at its last status, minus the keys that this process took since then; 0 after a failure

	mu   sync.Mutex
	last Status // the last status without an error
}

var _ kgs.Supply = (*Lists)(nil)

// NewLists returns a pool of n lists. n is at most MaxLists. NewLists ignores cfg.List and does not call
// Redis. The caller closes the client.
func NewLists(client redis.UniversalClient, cfg Config, n int, log *slog.Logger) *Lists {
	l := &Lists{}
	for i := range n {
		cfg.List = i
		of := log
		if n > 1 {
			of = log.With(slog.Int("list", i))
		}
		pool := New(client, cfg)
		l.lists = append(l.lists, &list{Pool: pool, breaker: kgs.NewBreaker(pool, "pool", of)})
	}
	return l
}

// Take takes up to n keys from one list. It tries the lists in descending order of their size,
// until a list gives keys. If no list gives keys, the error contains the errors of the lists that
// Take tried. If ctx ends before Take has tried all lists, the error also contains the error of ctx.
func (l *Lists) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	var errs []error
	for _, i := range l.fullestFirst() {
		if err := ctx.Err(); err != nil { // this list was not tried, so it may still have keys
			errs = append(errs, l.name(i, err))
			break
		}
		list := l.lists[i]
		b, err := list.breaker.Take(ctx, n)
		if err == nil {
			list.size.Add(-int64(len(b.Codes)))
			b.ID = b.ID*MaxLists + int64(i)
			return b, nil
		}
		list.size.Store(0)
		errs = append(errs, l.name(i, err))
	}
	return nil, errors.Join(errs...)
}

// fullestFirst returns the indexes of the lists. The list with the most keys comes first.
func (l *Lists) fullestFirst() []int {
	order, keys := make([]int, len(l.lists)), make([]int64, len(l.lists))
	for i, list := range l.lists {
		order[i], keys[i] = i, list.size.Load()
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[b], keys[a]) })
	return order
}

// name adds the number of a list to an error if the pool has more than one list.
func (l *Lists) name(i int, err error) error {
	if err == nil || len(l.lists) == 1 {
		return err
	}
	return fmt.Errorf("list %d: %w", i, err)
}

// Settle reports to the list of b what happened to the keys of b; see [Pool.Settle].
func (l *Lists) Settle(ctx context.Context, b *kgs.Batch, unused, lost []string) error {
	own := *b
	own.ID = b.ID / MaxLists
	i := int(b.ID % MaxLists)
	return l.name(i, l.lists[i].breaker.Settle(ctx, &own, unused, lost))
}

// Status returns the state of all lists together. Keys counts the keys of the lists that answer and are
// open. Taken and Pushed also include the last known values of the other lists. Epoch is the newest
// epoch of all lists. Partial is true if a list does not answer. If a Redis may evict keys, Policy is the policy of
// this Redis.
//
// The error is nil if at least one list answers and is open. If all lists fail, the error contains the errors of all
// lists, and the status is the status of the first list, except for Policy. RunID is then valid if the first list failed
// with [kgs.ErrNoEpoch] itself and not with [ErrForeign]. Policy is "" if no list reported a policy.
func (l *Lists) Status(ctx context.Context) (Status, error) {
	return l.status(func(list *list) (Status, error) { return list.Status(ctx) })
}

// Watch is like Status, but it calls each list through the breaker of the list.
func (l *Lists) Watch(ctx context.Context) (Status, error) {
	return l.status(func(list *list) (Status, error) { return kgs.Guard(list.breaker, list.Status)(ctx) })
}

func (l *Lists) status(ask func(*list) (Status, error)) (Status, error) {
	answers := make([]Status, len(l.lists))
	errs := l.each(func(i int, list *list) (err error) {
		answers[i], err = ask(list)
		answers[i] = list.remember(answers[i], err)
		return err
	})
	if len(l.lists) == 1 {
		return answers[0], errs[0]
	}
	var sum Status
	for i, s := range answers {
		sum.Keys += s.Keys
		sum.Taken += s.Taken
		sum.Pushed += s.Pushed
		sum.Epoch = max(sum.Epoch, s.Epoch)
		if sum.Policy == "" || s.Evicts() {
			sum.Policy = s.Policy
		}
		sum.Cause = cmp.Or(sum.Cause, s.Cause)
		if errs[i] == nil {
			sum.RunID = cmp.Or(sum.RunID, s.RunID)
		}
		// A list that waits for an epoch gives no keys, so its keys are not missing from the sum.
		sum.Partial = sum.Partial || errs[i] != nil && !errors.Is(errs[i], kgs.ErrNoEpoch)
	}
	if slices.Contains(errs, nil) {
		return sum, nil
	}
	answers[0].Policy = sum.Policy
	return answers[0], errors.Join(errs...)
}

// remember records the status of a list and returns it. After an error, the returned status has 0 keys, because no server
// can take the keys of a list that does not answer, waits for an epoch or belongs to another database. If an earlier
// status is known, the returned status has the earlier values of Taken, Pushed and Epoch.
func (l *list) remember(s Status, err error) Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.size.Store(s.Keys)
		l.last = s
		return s
	}
	l.size.Store(0)
	s.Keys = 0
	if l.last.Epoch > 0 {
		s.Taken, s.Pushed, s.Epoch = l.last.Taken, l.last.Pushed, l.last.Epoch
	}
	return s
}

// each calls the function do for all lists at the same time. It returns the error of each list, in the order of the
// lists.
func (l *Lists) each(do func(i int, list *list) error) []error {
	errs := make([]error, len(l.lists))
	var calls sync.WaitGroup
	for i, list := range l.lists {
		calls.Go(func() { errs[i] = l.name(i, do(i, list)) })
	}
	calls.Wait()
	return errs
}

// State returns the best state of the breakers of the lists. Closed is the best state, and open is the
// worst.
func (l *Lists) State() gobreaker.State {
	best := gobreaker.StateOpen
	for _, list := range l.lists {
		best = min(best, list.breaker.State()) // closed is 0, half-open 1 and open 2
	}
	return best
}

// Release ends the use of all lists by this holder; see [Pool.Release].
func (l *Lists) Release(ctx context.Context) error {
	return errors.Join(l.each(func(_ int, list *list) error { return list.Release(ctx) })...)
}

// Sweep abandons the batches of dead holders in all lists; see [Pool.Sweep]. It skips lists that are not
// open. If such a list waits for a new epoch, the new epoch abandons the keys of dead holders. Otherwise
// the list belongs to another database.
func (l *Lists) Sweep(ctx context.Context) (abandoned int64, err error) {
	counts := make([]int64, len(l.lists))
	errs := l.each(func(i int, list *list) (err error) {
		if counts[i], err = list.Sweep(ctx); errors.Is(err, kgs.ErrNoEpoch) {
			return nil
		}
		return err
	})
	for _, n := range counts {
		abandoned += n
	}
	return abandoned, errors.Join(errs...)
}

// Epochs returns the epochs of the given lists, for an audit. Each key of the map want is the number of a list; Epochs
// ignores the values. Epochs fails if one of these lists does not answer or is not open.
func (l *Lists) Epochs(ctx context.Context, want map[int]int64) (map[int]int64, error) {
	epochs := make(map[int]int64, len(want))
	for i := range want {
		if i >= len(l.lists) {
			return nil, fmt.Errorf("the pool has no list %s", strconv.Itoa(i))
		}
		epoch, err := l.lists[i].Epoch(ctx)
		if err != nil {
			return nil, l.name(i, err)
		}
		epochs[i] = epoch
	}
	return epochs, nil
}

// Snapshot yields the codes of the given lists; see [Pool.Snapshot]. The keys of the map are the numbers of these
// lists; Snapshot ignores the values.
func (l *Lists) Snapshot(ctx context.Context, lists map[int]int64) iter.Seq2[kgs.PoolEntry, error] {
	return func(yield func(kgs.PoolEntry, error) bool) {
		for i := range lists {
			for entry, err := range l.lists[i].Snapshot(ctx) {
				if !yield(entry, l.name(i, err)) {
					return
				}
			}
		}
	}
}
