package visits

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"keypool/internal/upkeep"
)

const (
	// partRows is the maximum length of Part.Rows, and the default of Config.PartFacets. It is limited because with SQLite,
	// creations wait for the transaction of a part.
	partRows = 4096
	// applyTimeout is the time limit of one part.
	applyTimeout = 5 * time.Second
	// FinalTimeout is the time limit of the flush at the end of Run.
	FinalTimeout = 4 * time.Second
	// finalPause is the time between two attempts of the flush at the end of Run.
	finalPause = 100 * time.Millisecond
)

// Applier stores the parts of flushes. [Store] implements it.
type Applier interface {
	// Register records a new writer. The call may be repeated until the first part of the writer is applied.
	Register(ctx context.Context, writer string) error
	// Apply adds a part to the counts, in one transaction. The number (Sequence) of the first part of a writer is 1,
	// and each further part has the next number. If the store has already applied a part with the same writer and
	// number, Apply does nothing. If the store does not know the writer, or has neither this part nor the previous
	// part, Apply changes nothing and fails with ErrForgotten. After any other error, the part may be stored, and Apply
	// may be repeated with the same part.
	Apply(ctx context.Context, p Part) error
}

// ErrForgotten reports that a store does not know the writer of a part, or does not have the previous part. Either the
// writer was idle for so long that the store removed its row, or the database returned to an older state.
var ErrForgotten = errors.New("the store does not have the previous part of this writer")

// Part contains the counts of a flush that are stored in one transaction. Rows and Facets are sorted by their keys, so
// that the transactions of two servers lock the rows of the database in the same order.
type Part struct {
	Writer   string
	Sequence int64
	Rows     []Row
	Facets   []FacetRow
}

// Row is the number of visits of a link in one hour.
type Row struct {
	Code  string
	Hour  int64 // hours since 1970
	Owner int64
	Count
}

// FacetRow is the number of visits of a link on one day for one value of a facet.
type FacetRow struct {
	Code  string
	Facet Facet
	Day   int64 // days since 1970
	Value string
	Count
}

// flusher stores the counts of a Counter.
type flusher struct {
	stored atomic.Pointer[time.Time]

	mu          sync.Mutex // held during a flush
	writer      string
	registered  bool      // whether the store knows the writer
	sequence    int64     // number of the last stored part of the writer
	parts       []Part    // parts of the flush in progress that are not known to be stored
	mayBeStored bool      // whether an earlier attempt may have stored parts[0]
	takenAt     time.Time // time at which parts were taken from the counter
}

func (c *Counter) start() {
	c.renameWriter()
	now := c.Now()
	c.stored.Store(&now)
	c.Metrics.stored.Set(float64(now.Unix()))
}

// AsOf returns the time at which the last successful flush took the counts from memory. All visits that this server counted
// before this time are in the database or were dropped. A flush without counts is successful too. Before the first successful
// flush, AsOf returns the time at which the counter was made. AsOf does not block.
func (c *Counter) AsOf() time.Time { return c.stored.Load().UTC() }

// Run flushes the counts at intervals until ctx ends. Then it flushes until all counts are stored, and fails if this
// takes longer than FinalTimeout. The caller must not call Count after the end of ctx.
func (c *Counter) Run(ctx context.Context) error {
	ticker := time.NewTicker(c.Flush)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return c.flushFinally(context.WithoutCancel(ctx))
		case <-ticker.C:
		}
		if err := c.FlushNow(ctx); ctx.Err() == nil {
			c.Note(err)
		}
	}
}

// flushFinally repeats a flush until all counts are stored or FinalTimeout has passed.
func (c *Counter) flushFinally(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, FinalTimeout)
	defer cancel()
	for {
		err := c.flush(ctx, 0) // if the previous flush failed, this call stores only the rest of that flush
		left := c.unstored()
		switch {
		case err == nil && left == 0:
			return nil
		case err == nil:
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d visits%s may be lost: %w", left, c.details(), err)
		case <-time.After(finalPause):
		}
	}
}

// details returns the words that an error adds to the number of visits that may be lost. If visits are not counted by
// facet, the result is "". The words give no second number, because a visit and its facets may be in different parts.
func (c *Counter) details() string {
	if c.Detail {
		return " and the details of visits"
	}
	return ""
}

// FlushNow stores the counts. If the previous flush failed, FlushNow only stores the rest of that flush. It blocks
// until the database answers. The time limit is five seconds for each part. Between two parts, FlushNow waits for as
// long as the last part took, but at most a quarter of a second. Without this wait, a long flush would lock an SQLite
// file almost all the time. A command such as `shortener token revoke` polls for the lock at intervals. It would rarely
// find the lock free, and would fail.
func (c *Counter) FlushNow(ctx context.Context) error { return c.flush(ctx, upkeep.MaxPause) }

// flush implements FlushNow. The argument longest is the maximum wait between two parts. In the flush at the end of Run, it is 0.
func (c *Counter) flush(ctx context.Context, longest time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parts) == 0 {
		c.takenAt = c.Now()
		rows, facets := c.drain()
		c.parts = partsOf(rows, facets, c.PartFacets)
	}
	err := c.apply(ctx, longest)
	c.Metrics.pending.Set(float64(c.size() + rowsOf(c.parts)))
	if err != nil {
		c.Metrics.failures.Inc()
		return err
	}
	takenAt := c.takenAt
	c.stored.Store(&takenAt)
	c.Metrics.stored.Set(float64(takenAt.Unix()))
	return nil
}

// unstored returns the number of visits that are only in memory.
func (c *Counter) unstored() (visits int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.parts {
		for i := range p.Rows {
			visits += p.Rows[i].Sum()
		}
	}
	return visits + c.counted()
}

// apply stores the parts, and removes each part that is stored.
func (c *Counter) apply(ctx context.Context, longest time.Duration) error {
	for len(c.parts) > 0 {
		begin := time.Now()
		err := c.applyFirst(ctx)
		if errors.Is(err, ErrForgotten) {
			err = c.applyFirst(ctx) // again, with a new writer
		}
		if err != nil {
			return err
		}
		c.parts = c.parts[1:]
		if len(c.parts) == 0 {
			break
		}
		if err := upkeep.Pause(ctx, min(time.Since(begin), longest)); err != nil {
			return err
		}
	}
	c.parts = nil
	return nil
}

// applyFirst stores the first part. After ErrForgotten, it gives the counter a new writer. If an earlier attempt may
// have stored the part, applyFirst also drops the part, because a repetition could count its visits twice.
func (c *Counter) applyFirst(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	if err := c.register(ctx); err != nil {
		return err
	}
	p := &c.parts[0]
	p.Writer, p.Sequence = c.writer, c.sequence+1
	err := c.Store.Apply(ctx, *p)
	switch {
	case err == nil:
		c.sequence++
	case errors.Is(err, ErrForgotten):
		c.renameWriter()
		if !c.mayBeStored {
			return err
		}
		c.countDropped(p)
		err = nil
	}
	c.mayBeStored = err != nil
	return err
}

// renameWriter gives the counter a new writer, which the store does not know yet.
func (c *Counter) renameWriter() { c.writer, c.registered, c.sequence = rand.Text(), false, 0 }

// register registers the writer before its first part. Without a registration, the store could not distinguish a new
// writer from a writer that the store has forgotten.
func (c *Counter) register(ctx context.Context) error {
	if c.registered {
		return nil
	}
	err := c.Store.Register(ctx, c.writer)
	c.registered = err == nil
	return err
}

// countDropped adds the visits and the facets of a part to the metrics of dropped visits.
func (c *Counter) countDropped(p *Part) {
	for i := range p.Rows {
		c.Metrics.dropped.Add(float64(p.Rows[i].Sum()))
	}
	for i := range p.Facets {
		c.Metrics.droppedDetails.Add(float64(p.Facets[i].Sum()))
	}
}

// partsOf divides counts into parts. Each part has at most partFacets facets.
func partsOf(rows []Row, facets []FacetRow, partFacets int) (parts []Part) {
	for some := range slices.Chunk(rows, partRows) {
		parts = append(parts, Part{Rows: some})
	}
	i := 0
	for some := range slices.Chunk(facets, partFacets) {
		if i == len(parts) {
			parts = append(parts, Part{})
		}
		parts[i].Facets = some
		i++
	}
	return parts
}

func rowsOf(parts []Part) (n int) {
	for i := range parts {
		n += len(parts[i].Rows)
	}
	return n
}
