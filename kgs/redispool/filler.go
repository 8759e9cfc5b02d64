package redispool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"keypool/internal/failpoint"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
	"keypool/kgs/refill"
)

// pushSize is how many codes one push sends to Redis. Redis runs nothing else during a push,
// which takes about 3 ms.
const pushSize = 10_000

// FillerConfig configures a Filler.
type FillerConfig struct {
	Ledger  *ledger.Ledger
	Pool    *Pool
	Space   *codespace.Space
	Holder  string        // holder of the ranges in progress; no other worker may ever use this name
	Length  int           // minimum length of the codes
	Size    *atomic.Int64 // keys in the list at the last Prepare; shared with the next filler of the list; may be nil
	Close   func() error  // closes the connections of Pool
	Logger  *slog.Logger
	Metrics *kgs.Metrics
}

// Filler pushes ranges of the ledger to a Redis pool in four steps. It reserves a range, permutes
// its numbers into codes, pushes the codes, and delivers the range. The ledger records the
// reservation and the delivery, and Redis records each push. After a crash, another worker
// continues at the first number that was not pushed.
type Filler struct {
	cfg     FillerConfig
	ledger  *ledger.List
	current *ledger.Reservation // the range in progress; nil if there is none
	next    int64               // the first number of current that is not known to be pushed

	failing time.Time // time of the first failure in a series of failed pushes; zero if the last push succeeded
	rests   time.Time // the filler reserves no range before this time, because it gave a range up
	renewed time.Time // time at which the ledger recorded the last heartbeat
	claimed time.Time // time at which Redis last recorded that this database owns the pool
	refused refusal   // series of refused calls of Claim and CheckWrites
	full    refusal   // series of refused pushes

	beyond ledger.HighWaterMark // the argument of the last successful call of SkipBeyond; see skipForeign
}

var _ refill.Filler = (*Filler)(nil)

// NewFiller returns a filler without a current range. It calls neither the ledger nor Redis.
func NewFiller(cfg FillerConfig) *Filler {
	cfg.Size = cmp.Or(cfg.Size, new(atomic.Int64))
	return &Filler{cfg: cfg, ledger: cfg.Ledger.List(cfg.Pool.cfg.List)}
}

// Prepare sends a heartbeat to the ledger if one is due. If the pool lost its state, or its epoch differs
// from the epoch of the ledger, Prepare opens a new epoch. The new epoch starts with an empty pool. Prepare
// also confirms at intervals that this database owns the pool (see claim).
//
// Prepare fails with [ErrForeign] if another database owns the pool. The ledger then skips the numbers that this pool
// has received. Prepare fails with errSeveralPools if workers replace each other's epochs too often (see replace.go).
// In both cases an operator must act.
func (f *Filler) Prepare(ctx context.Context) error {
	if err := f.renew(ctx); err != nil {
		return err
	}
	epoch, err := f.ledger.Epoch(ctx)
	if err != nil {
		return err
	}
	status, err := f.cfg.Pool.Status(ctx)
	switch {
	case errors.Is(err, ErrForeign):
		return errors.Join(err, f.skipForeign(ctx, status.HighWater))
	case errors.Is(err, kgs.ErrNoEpoch):
		return f.reopen(ctx, epoch.Number, status)
	case err != nil:
		f.refused = refusal{} // the series ends, because the dead man's switch detects a pool that cannot be read
		return err
	case status.Epoch < epoch.Number:
		// The pool was not opened for the epoch of the ledger, for one of two reasons. The worker that began the epoch
		// has crashed or has not opened the pool yet. Or a restored ledger began the epoch when it skipped ahead, before
		// it knew the high-water mark of the pool. No other worker may open the pool for the same epoch (see Pool.Open),
		// so this worker begins another epoch.
		f.ledger.Remember(status.HighWater)
		if err := f.mayReplace(ctx, maxEpochs); err != nil {
			return err
		}
		return f.openEpoch(ctx, epoch.Number, status)
	case status.Epoch > epoch.Number:
		if reopened, err := f.reopenIfBehind(ctx, status); err != nil || reopened {
			return err
		}
	case status.Floor > maxTakenOver:
		if reopened, err := f.reopenIfFloorAltered(ctx, status); err != nil || reopened {
			return err
		}
	}
	f.ledger.Remember(status.HighWater)
	f.cfg.Size.Store(status.Keys)
	return f.claim(ctx)
}

// reopen begins an epoch for a pool that lost its state. If another database owned the pool within the last minute,
// reopen fails, because a worker of that database opens the pool within seconds.
func (f *Filler) reopen(ctx context.Context, previous int64, seen Status) error {
	if f.cfg.Pool.cfg.Alarm.foreign() {
		return fmt.Errorf("wait for the worker of the other database: %w", ErrForeign)
	}
	f.ledger.Remember(seen.HighWater)
	return f.openEpoch(ctx, previous, seen)
}

// skipForeign makes the ledger skip the numbers that the pool of another database has received. If the database of the
// ledger is a restored backup of the database that owns the pool, these numbers have been issued. Only this pool records
// them. The ledger must skip them now, because an operator may give the ledger another pool later.
func (f *Filler) skipForeign(ctx context.Context, seen ledger.HighWaterMark) error {
	if seen.ID == f.beyond.ID && maps.Equal(seen.Next, f.beyond.Next) {
		return nil
	}
	if err := f.ledger.SkipBeyond(ctx, seen); err != nil {
		return err
	}
	f.beyond = seen
	return nil
}

// Len returns how many keys the pool holds. It fails with [kgs.ErrNoEpoch] if the pool lost its
// state.
func (f *Filler) Len(ctx context.Context) (int64, error) {
	status, err := f.cfg.Pool.Status(ctx)
	return status.Keys, err
}

// reopenIfBehind begins a new epoch if the epoch of the pool is newer than the epoch of the ledger. It reports whether
// it began an epoch. Prepare reads the epoch of the ledger before the epoch of the pool, so another worker may have begun
// an epoch in between. Therefore reopenIfBehind reads the epoch of the ledger again. If the epoch of the pool is still
// newer, the database of the ledger was restored from an older state, and the ledger would reserve numbers a second time.
// In this case reopenIfBehind begins a new epoch, and the ledger skips ahead: it moves its counters past every number
// whose reservation the rollback may have removed. If the epoch of the pool is above maxTakenOver, no ledger has begun
// this epoch, and reopenIfBehind treats the pool as damaged.
func (f *Filler) reopenIfBehind(ctx context.Context, pool Status) (reopened bool, err error) {
	epoch, err := f.ledger.Epoch(ctx)
	if err != nil || pool.Epoch <= epoch.Number {
		return false, err // if err is nil, another worker began the epoch after Prepare had read the ledger
	}
	f.ledger.Remember(pool.HighWater) // the ledger then repeats no number, even if mayReplace delays the epoch
	if pool.Epoch > maxTakenOver {
		err := f.cfg.Pool.damage(ctx, fmt.Sprintf("the pool is in epoch %d, and the ledger is in epoch %d", pool.Epoch, epoch.Number))
		if err != nil {
			return false, err
		}
		return true, f.openEpoch(ctx, epoch.Number, pool)
	}
	if err := f.mayReplace(ctx, maxSkips); err != nil {
		return false, err
	}
	f.cfg.Logger.Warn("the database of the ledger was rolled back: the epoch of the pool is newer",
		slog.Int64("ledger_epoch", epoch.Number), slog.Int64("pool_epoch", pool.Epoch))
	return true, f.openEpoch(ctx, pool.Epoch, pool)
}

// reopenIfFloorAltered begins a new epoch if the floor of the pool is above the next id of the ledger. It reports whether
// it began an epoch. The caller has checked that the floor is above maxTakenOver. If the floor is also above the next id,
// no ledger has set this floor, and the pool would refuse every push. Therefore reopenIfFloorAltered treats the pool as
// damaged.
//
// Prepare does not call reopenIfFloorAltered for a floor of at most maxTakenOver. Such a floor counts in the high-water
// mark of the pool. If it is above the next id of the ledger, the ledger skips ahead, because it may have been rolled back.
func (f *Filler) reopenIfFloorAltered(ctx context.Context, pool Status) (reopened bool, err error) {
	counters, err := f.ledger.Counters(ctx)
	if err != nil || pool.Floor <= counters.LastID+1 {
		return false, err
	}
	err = f.cfg.Pool.damage(ctx, fmt.Sprintf("the floor is %d, and the last range id of the ledger is %d", pool.Floor, counters.LastID))
	if err != nil {
		return false, err
	}
	return true, f.openEpoch(ctx, pool.Epoch, pool)
}

// renew sends a heartbeat once every ledger.HeartbeatInterval. After a failure, the next Prepare
// tries again.
func (f *Filler) renew(ctx context.Context) error {
	if time.Since(f.renewed) < ledger.HeartbeatInterval {
		return nil
	}
	if err := f.ledger.Renew(ctx, f.cfg.Holder); err != nil {
		return err
	}
	f.renewed = time.Now()
	return nil
}

// openEpoch begins the epoch that follows the given epoch (previous). It abandons the keys of the pool and opens an
// empty pool for the new epoch.
//
// The worker may crash after the ledger has begun the epoch and before the pool is open. The next
// Prepare of any worker detects the crash and begins another epoch. The same happens if the worker
// freezes at this point. The frozen worker may continue later and open the pool for its own epoch,
// which has ended. The pool then stays empty in that epoch, because no worker pushes keys for that epoch.
func (f *Filler) openEpoch(ctx context.Context, previous int64, seen Status) error {
	// The ledger keeps the rows of each epoch for ever. While Redis refuses writes, each attempt would add rows and fail
	// to open the pool. So first check that Redis accepts writes.
	if err := f.cfg.Pool.CheckWrites(ctx, seen.RunID); err != nil {
		f.noteRefusal(err)
		return err
	}
	f.refused = refusal{}
	epoch, opened, err := f.ledger.OpenEpoch(ctx, previous, seen.RunID)
	if err != nil {
		return err
	}
	if !opened {
		return fmt.Errorf("another worker opens epoch %d: %w", epoch, kgs.ErrNoEpoch)
	}
	f.current = nil // the range is abandoned with the old epoch
	failpoint.At("epoch:opened")
	if err := f.cfg.Pool.Open(ctx, epoch, seen.RunID); err != nil {
		return err // the worker that opens the pool for a later epoch counts the abandoned keys
	}
	// If Redis returned to an older snapshot, its list also has keys that servers took after the snapshot. Therefore
	// the size at the last Prepare is the better count of the lost keys. The keys in batches are not lost: their
	// holders use them.
	lost := cmp.Or(f.cfg.Size.Swap(0), seen.Keys)
	f.cfg.Metrics.CountAbandoned(kgs.ReasonEpoch, lost)
	f.cfg.Logger.Info("the pool begins a new epoch", slog.Int64("epoch", epoch), slog.Int64("keys_last_seen", lost))
	return nil
}

// Fill pushes the rest of the current range. If there is no current range, Fill first reserves a
// range of up to n numbers, or takes over the whole range of a dead worker. It returns how many keys
// it pushed.
//
// [kgs.ErrFenced] means that another worker has delivered the range, or that the range was
// abandoned with its epoch. The filler then drops the range. After [kgs.ErrNoEpoch] the filler
// keeps the range. After a new epoch has begun, the pool refuses the range with ErrFenced.
func (f *Filler) Fill(ctx context.Context, n int64) (pushed int64, err error) {
	if failpoint.At("ship:begin") {
		return 0, nil
	}
	if err := f.reserve(ctx, n); err != nil {
		return 0, err
	}
	failpoint.At("ship:reserved")
	pushed, err = f.push(ctx)
	if errors.Is(err, kgs.ErrFenced) {
		f.current = nil
	}
	if err != nil {
		return pushed, errors.Join(err, f.mayGiveUp(pushed > 0))
	}
	f.failing = time.Time{}
	failpoint.At("ship:pushed-all")
	err = f.deliver(ctx)
	failpoint.At("ship:forgotten")
	return pushed, err
}

// reserve reserves a range if there is no current range. It fails with errRests while the filler waits
// after it gave a range up. If the worker crashes after reserve, the range stays in the ledger, and
// another worker takes the range over.
func (f *Filler) reserve(ctx context.Context, n int64) error {
	if f.current != nil {
		return nil
	}
	if time.Now().Before(f.rests) {
		return errRests
	}
	r, err := f.ledger.Reserve(ctx, f.cfg.Holder, ledger.StateShipping, f.cfg.Length, n)
	if err != nil {
		return err
	}
	f.current, f.next, f.failing = &r, r.Lo, time.Time{}
	return nil
}

// deliver records in the ledger that the current range is completely in the pool. Then it calls
// Pool.Forget, which deletes the mark of the range: the next number that the pool expects. If the
// worker crashes before the ledger has recorded the delivery, another worker takes over the range.
// The other worker finds the mark at the end of the range, pushes nothing and delivers the range. If
// the worker crashes before the call of Forget, the pool keeps the mark until the next range is delivered.
func (f *Filler) deliver(ctx context.Context) error {
	floor, err := f.ledger.Deliver(ctx, *f.current)
	if err != nil {
		return err
	}
	failpoint.At("ship:delivered")
	epoch := f.current.Epoch
	f.current = nil
	err = f.cfg.Pool.Forget(ctx, epoch, floor)
	if errors.Is(err, kgs.ErrFenced) || errors.Is(err, kgs.ErrNoEpoch) {
		return nil // the epoch has ended, and its marks were deleted
	}
	return err
}

// push pushes the rest of the current range in pieces. The script that pushes a piece also sets the
// mark of the range. After a crash, the next worker that pushes this range continues at the mark.
func (f *Filler) push(ctx context.Context) (pushed int64, err error) {
	for f.next < f.current.Hi {
		n, err := f.pushOn(ctx)
		pushed += n
		if err != nil {
			return pushed, err
		}
	}
	return pushed, nil
}

// pushOn pushes the remaining pieces of the current range. The codes of the next piece are computed
// while Redis receives the current piece. If the mark after a push is not the end of the piece, pushOn
// returns, and push calls pushOn again. The second call begins at the mark.
func (f *Filler) pushOn(ctx context.Context) (pushed int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	pieces := f.permute(ctx)
	defer func() {
		cancel()
		for range pieces { // wait until the goroutine of permute has ended
		}
	}()
	for c := range pieces {
		mark, err := f.cfg.Pool.Push(ctx, *f.current, c.numbers.Lo, c.numbers.Hi, c.codes)
		f.full.note(err, f.cfg.Pool.cfg.Alarm, "Redis refuses new keys")
		if err != nil {
			return pushed, err
		}
		f.next = mark
		failpoint.At("ship:pushed")
		if mark != c.numbers.Hi {
			return pushed, nil // the reply to an earlier push was lost, or another worker took over the range
		}
		pushed += c.numbers.Len()
	}
	return pushed, ctx.Err()
}

// piece holds the numbers and the codes of one push.
type piece struct {
	numbers codespace.Range
	codes   []byte
}

// permute returns a channel that yields the remaining pieces of the current range. A goroutine
// computes the pieces ahead of the receiver. The goroutine closes the channel after the last piece,
// or when ctx ends.
func (f *Filler) permute(ctx context.Context) <-chan piece {
	r, next := *f.current, f.next // copies, because each push changes f.next
	pieces := make(chan piece, 1)
	go func() {
		defer close(pieces)
		for lo := next; lo < r.Hi; lo += pushSize {
			c := piece{numbers: codespace.Range{Length: r.Length, Lo: lo, Hi: min(lo+pushSize, r.Hi)}}
			c.codes = f.cfg.Space.AppendCodes(make([]byte, 0, c.numbers.Len()*int64(r.Length)), c.numbers)
			select {
			case pieces <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	return pieces
}

// Release removes this holder from the ledger, so that other workers can take over its ranges. It also
// closes the connections of the pool.
func (f *Filler) Release(ctx context.Context) error {
	err := f.ledger.Release(ctx, f.cfg.Holder)
	return errors.Join(err, f.cfg.Close())
}
