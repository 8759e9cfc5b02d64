package shortener

import (
	"context"
	"errors"
	"runtime"
	"time"
)

const (
	// maxRows bounds one Insert, so that nobody waits for the rows of very many others.
	maxRows = 512
	// maxYields bounds how often an Insert lets the goroutines that are ready go first.
	maxYields = 3
	// insertTimeout bounds one Insert.
	insertTimeout = 2 * time.Second
	// firstPause is waited before an Insert of unknown outcome is repeated; it
	// doubles with each time.
	firstPause = 5 * time.Millisecond
)

// run is an inserter.
func (c *committer) run(ctx context.Context) {
	group := make([]*pending, 0, maxRows)
	for open := true; open; {
		if group, open = c.next(group[:0]); len(group) > 0 {
			c.settle(ctx, group)
		}
	}
}

// next waits for a link and takes all that wait behind it. Of several inserters one does so
// at a time, otherwise they would share out what could be one Insert.
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

// yield lets creations that have all they need but a processor get in line: a commit costs as
// much as the rows of some dozen links, and on a busy machine they would make another one. On
// an idle one there is nobody to yield to.
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

// take adds p to the group unless its caller withdrew it.
func take(group []*pending, p *pending) []*pending {
	if p.state.CompareAndSwap(queued, taken) {
		return append(group, p)
	}
	return group
}

// settle inserts the group and tells each caller its own outcome. Where the store
// refuses the data of a link, halving the group finds it, and the others get through.
func (c *committer) settle(ctx context.Context, group []*pending) {
	outcomes, err := c.insert(ctx, group)
	if errors.Is(err, ErrRefused) && len(group) > 1 {
		half := len(group) / 2
		c.settle(ctx, group[:half])
		c.settle(ctx, group[half:])
		return
	}
	for i, p := range group {
		if err != nil {
			p.result <- result{err: err}
			continue
		}
		p.result <- result{outcome: outcomes[i]}
	}
}

// insert repeats an Insert whose outcome is unknown for as long as somebody waits to
// hear it, which [Store] says is safe. Once a try may have written something, a later
// one that wrote nothing does not make that untrue: the first error stands.
func (c *committer) insert(ctx context.Context, group []*pending) ([]Outcome, error) {
	links := make([]Link, len(group))
	for i, p := range group {
		links[i] = p.link
	}
	var unknown error
	for pause := firstPause; ; pause *= 2 {
		outcomes, err := c.try(ctx, links)
		if err == nil {
			return decide(outcomes, unknown != nil), nil
		}
		if unknown == nil {
			if errors.Is(err, ErrNotWritten) {
				return nil, err
			}
			unknown = err
			for _, p := range group {
				p.cause.Store(&unknown)
			}
		}
		if !awaited(group) || !sleep(ctx, pause) {
			return nil, unknown
		}
	}
}

// decide says what a link that is Present means. After a try of unknown outcome that
// try wrote it; in a first try another process made the very same link first, in the
// same microsecond.
func decide(outcomes []Outcome, repeated bool) []Outcome {
	for i, o := range outcomes {
		switch {
		case o == Present && repeated:
			outcomes[i] = Inserted
		case o == Present:
			outcomes[i] = Conflict
		}
	}
	return outcomes
}

func (c *committer) try(ctx context.Context, links []Link) ([]Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	start := time.Now()
	outcomes, err := c.store.Insert(ctx, links)
	c.metrics.commitSeconds.Observe(time.Since(start).Seconds())
	c.metrics.commitRows.Observe(float64(len(links)))
	return outcomes, err
}

// awaited reports whether anybody still waits for an outcome of the group.
func awaited(group []*pending) bool {
	for _, p := range group {
		if p.state.Load() != left {
			return true
		}
	}
	return false
}

// sleep waits for d; false means that ctx ended first.
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
