package keysource

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"keypool/kgs/codespace"
)

const (
	// skipMargin is how many numbers above the high-water mark a skip-ahead skips, because other
	// processes may have taken these numbers before the rollback. The margin is at most 1/skipPart of
	// the codes that have the length of the mark's code. The ledger uses the same two values.
	skipMargin = 10_000_000
	skipPart   = 100
)

var errBelowMark = errors.New("the counter is below a number that it issued before")

// highWater is the high-water mark of one counter: the highest number that this process took from the counter. A number
// that is not above the mark shows a rollback: the server of the counter returned to an older state. The methods of
// highWater are safe for concurrent use.
type highWater struct {
	length int // minimum length of a code
	log    *slog.Logger
	mark   atomic.Int64
}

// next takes a number. If the number shows a rollback, next discards it, skips ahead and takes another number. So
// each number that next returns is above the mark that the process had when the call began.
//
// The parameter take takes one or more numbers from the counter and returns the first and the last
// of them. next returns the last, and the others are never issued. The parameter skipTo moves the
// counter to its argument if the counter is lower, and never moves it back. It returns how many numbers
// it skipped.
func (h *highWater) next(take func() (first, last int64, err error), skipTo func(int64) (int64, error)) (int64, error) {
	// Read the mark before the call. A concurrent call that ends earlier may raise the mark above the
	// number of this call, although there was no rollback.
	mark := h.mark.Load()
	first, last, err := take()
	if err == nil && first <= mark {
		var skipped int64
		if skipped, err = skipTo(mark + margin(h.length, mark)); err != nil {
			return 0, fmt.Errorf("the counter returned to %d, which is not above the issued number %d; skip ahead: %w", first, mark, err)
		}
		if skipped > 0 { // otherwise a concurrent call has skipped ahead
			h.log.Warn("a counter returned to an older value; skipped numbers that may have been issued", slog.Int64("skipped", skipped), slog.Int64("mark", mark))
		}
		if first, last, err = take(); err == nil && first <= mark {
			err = errBelowMark // a second rollback
		}
	}
	if err != nil {
		return 0, err
	}
	for mark < last && !h.mark.CompareAndSwap(mark, last) {
		mark = h.mark.Load()
	}
	return last, nil
}

// margin returns how many numbers above the mark a skip-ahead skips. The result is even, so a ticket
// database keeps the parity of its numbers.
func margin(length int, mark int64) int64 {
	for length < codespace.MaxLength && mark >= codespace.Size(length) {
		length++
	}
	return min(skipMargin, codespace.Size(length)/skipPart) &^ 1
}
