package redispool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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
// continues at the first number that was not pushed. Prepare begins a new epoch if the pool needs one (prepare.go).
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

// Len returns how many keys the pool holds. It fails with [kgs.ErrNoEpoch] if the pool lost its
// state.
func (f *Filler) Len(ctx context.Context) (int64, error) {
	status, err := f.cfg.Pool.Status(ctx)
	return status.Keys, err
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
