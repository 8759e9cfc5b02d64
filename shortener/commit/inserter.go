package commit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"keypool/shortener"
)

const (
	// maxRows is the maximum number of links in one Insert. It limits how long the other links of the Insert can delay a
	// link.
	maxRows = 512
	// maxYields is the maximum number of times that an inserter lets other goroutines run
	// before it takes links.
	maxYields = 3
	// insertTimeout is the time limit of one Insert.
	insertTimeout = 2 * time.Second
	// firstPause is the pause before the first repetition of an Insert whose outcome is unknown. The pause doubles with
	// each repetition.
	firstPause = 5 * time.Millisecond
)

// run is an inserter. It writes groups of links until the queue is closed and empty.
func (c *committer) run(ctx context.Context) {
	group := make([]*pending, 0, maxRows)
	for open := true; open; {
		if group, open = c.next(group[:0]); len(group) > 0 {
			c.write(ctx, group)
		}
	}
}

// next waits for a link. It takes this link and the links that are in the queue behind it, together at most maxRows.
// Only one inserter at a time takes links. If two inserters took links at the same time, they would divide links that
// could share one Insert.
func (c *committer) next(group []*pending) (_ []*pending, open bool) {
	c.taking <- struct{}{}
	defer func() { <-c.taking }()
	p, open := <-c.queue
	if !open {
		return group, false
	}
	c.yield()
	return c.gather(take(group, p)), true
}

// yield lets other goroutines run, so that their creations can enter the queue and share the Insert. Without yield,
// these creations would need another commit on a busy machine, and a commit costs as much as several dozen rows. On an
// idle machine yield returns at once.
func (c *committer) yield() {
	for waiting, n := -1, 0; len(c.queue) > waiting && n < maxYields; n++ {
		waiting = len(c.queue)
		runtime.Gosched()
	}
}

func (c *committer) gather(group []*pending) []*pending {
	for len(group) < maxRows {
		select {
		case p, open := <-c.queue:
			if !open {
				return group
			}
			group = take(group, p)
		default:
			return group
		}
	}
	return group
}

// take adds p to the group, or drops p if its caller no longer waits.
func take(group []*pending, p *pending) []*pending {
	if p.state.CompareAndSwap(queued, taken) {
		return append(group, p)
	}
	return group
}

// write inserts the group and sends each caller the outcome of its link. If the store rejects the data of a link, write
// divides the group into halves until the rejected link is alone. So write can store all other links.
func (c *committer) write(ctx context.Context, group []*pending) {
	outcomes, unknown, err := c.insert(ctx, group)
	if errors.Is(err, shortener.ErrRefused) && len(group) > 1 {
		half := len(group) / 2
		c.write(ctx, group[:half])
		c.write(ctx, group[half:])
		return
	}
	for i, p := range group {
		if err != nil {
			p.result <- result{err: err}
			continue
		}
		p.result <- decide(&p.link, outcomes[i], unknown)
	}
}

// insert calls Insert. If the outcome is unknown, insert repeats the call while a caller waits for the outcome. The
// contract of [shortener.Store] permits the repetition. If a later call succeeds, insert returns the outcomes, and
// unknown is the error of the first call. If no call succeeds, err is the error of the first call. A later error would
// be wrong: it may wrap ErrNotWritten, although the first call may have stored the links.
func (c *committer) insert(ctx context.Context, group []*pending) (outcomes []shortener.Outcome, unknown, err error) {
	links := make([]shortener.Link, len(group))
	for i, p := range group {
		links[i] = p.link
	}
	var first error
	for pause := firstPause; ; pause *= 2 {
		outcomes, err := c.try(ctx, links)
		if err == nil {
			return outcomes, first, nil
		}
		if first == nil {
			if errors.Is(err, shortener.ErrNotWritten) {
				return nil, nil, err
			}
			first = err
			for _, p := range group {
				p.cause.Store(&first)
			}
		}
		if !awaited(group) || !sleep(ctx, pause) {
			return nil, nil, first
		}
	}
}

// decide returns the result of a link: the outcome Inserted or Conflict, or an error. If the outcome of an earlier Insert
// of the same links is unknown, the parameter unknown is the error of this earlier Insert. Then the outcome o means:
//
//   - Present: the earlier Insert wrote the link.
//   - Busy or CodeBusy: the transaction of the earlier Insert may still be in progress.
//   - Repeated: the earlier Insert may have written the link, and another server may have changed this link since.
//
// If there was no earlier Insert, unknown is nil. Then the outcome Present means that another creation, usually in another
// process, stored the identical link in the same microsecond. The code belongs to the link of the other creation, so the
// result is Conflict. If the link has an idempotency key, this key belongs to the other creation too, so the result is
// ErrRepeated.
func decide(link *shortener.Link, o shortener.Outcome, unknown error) result {
	switch {
	case o == shortener.Present && unknown != nil:
		return result{outcome: shortener.Inserted}
	case (o == shortener.Busy || o == shortener.CodeBusy) && unknown != nil:
		return result{err: unknown}
	case o == shortener.Busy:
		return result{err: fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrKeyBusy)}
	case o == shortener.CodeBusy:
		return result{err: errCodeBusy}
	case o == shortener.Repeated && unknown != nil:
		return result{err: fmt.Errorf("%w: %w", ErrRepeated, unknown)}
	case o == shortener.Repeated, o == shortener.Present && link.IdempotencyKey != nil:
		return result{err: fmt.Errorf("%w: %w", shortener.ErrNotWritten, ErrRepeated)}
	case o == shortener.Present:
		return result{outcome: shortener.Conflict}
	}
	return result{outcome: o}
}

func (c *committer) try(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	start := time.Now()
	ended := c.health.begin()
	outcomes, err := c.store.Insert(ctx, links)
	ended(err)
	c.metrics.seconds.Observe(time.Since(start).Seconds())
	if err == nil {
		c.metrics.rows.Observe(float64(len(links)))
	}
	return outcomes, err
}

// awaited reports whether a caller still waits for an outcome of the group.
func awaited(group []*pending) bool {
	for _, p := range group {
		if p.state.Load() != left {
			return true
		}
	}
	return false
}

// sleep waits for d. It returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
