package commit

import (
	"errors"
	"sync/atomic"
	"time"

	"keypool/shortener"
)

const (
	// slowInsert is the duration of an Insert after which the part of the store counts as slow. Most Inserts take a few
	// milliseconds. The circuit breaker of the part opens much later, because an open circuit breaker also refuses
	// redirects.
	slowInsert = 100 * time.Millisecond
	// failureMemory is the time for which a part counts as bad after an Insert failed. After this time, another Insert
	// tests the part.
	failureMemory = time.Second
)

// health records whether the Inserts in a part of the store are slow or fail. An Insert counts as failed only if its
// error concerns the part (see concernsPart). Each part has its own group commit and its own health. All times are
// nanoseconds since origin. The methods may be called concurrently.
type health struct {
	origin  time.Time
	running [maxInserters]atomic.Int64 // the time at which each running Insert began; 0 if there is none
	failed  atomic.Int64               // the time at which the last Insert failed; 0 if the last Insert did not fail
}

func (h *health) now() int64 { return max(1, int64(time.Since(h.origin))) }

// begin records that an Insert begins. The caller calls ended with the result. At most maxInserters Inserts run at the same
// time.
func (h *health) begin() (ended func(error)) {
	now := h.now()
	for i := range h.running {
		if h.running[i].CompareAndSwap(0, now) {
			return func(err error) {
				h.running[i].Store(0)
				h.note(err)
			}
		}
	}
	return h.note
}

func (h *health) note(err error) {
	switch {
	case concernsPart(err):
		h.failed.Store(h.now())
	case h.failed.Load() != 0:
		h.failed.Store(0)
	}
}

// longest returns how long the oldest running Insert has been running, or 0 if no Insert is running.
func (h *health) longest() (longest time.Duration) {
	now := h.now()
	for i := range h.running {
		if began := h.running[i].Load(); began != 0 {
			longest = max(longest, time.Duration(now-began), 1)
		}
	}
	return longest
}

// good reports whether the last Insert succeeded and no Insert is slow.
func (h *health) good() bool { return h.failed.Load() == 0 && h.longest() <= slowInsert }

// bad reports whether an Insert is slow, or whether the last Insert failed less than failureMemory ago. After failureMemory,
// one Insert tests the part. While this Insert is running, the part still counts as bad.
func (h *health) bad() bool {
	longest := h.longest()
	if failed := h.failed.Load(); failed != 0 {
		return longest > 0 || time.Duration(h.now()-failed) < failureMemory
	}
	return longest > slowInsert
}

// concernsPart reports whether another part might store the link whose Insert failed with err. It returns false if err is nil.
func concernsPart(err error) bool {
	for _, everywhere := range []error{shortener.ErrRefused, shortener.ErrOtherOrder, shortener.ErrKeyBusy, ErrRepeated, errCodeBusy, errClosed} {
		if errors.Is(err, everywhere) {
			return false
		}
	}
	return err != nil
}

// avoids reports whether new links should avoid a part at present. This is the case if the part is bad and another part
// answers and is good.
func (p *Parts) avoids(part int) bool {
	committers := *p.committers.Load()
	if c := committers[part]; len(committers) == 1 || c == nil || !c.health.bad() {
		return false
	}
	return p.Placement.Answers(func(other int) bool {
		c := committers[other]
		return other != part && c != nil && c.health.good()
	})
}
