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
)

const (
	// batchRows is the number of rows of a batch, at most, and of its facets. SQLite has one writer, so
	// creations wait for the transaction of a batch.
	batchRows = 4096
	// applyTimeout is the time limit of one batch.
	applyTimeout = 5 * time.Second
	// FinalTimeout is the time limit of the flush at the end of Run.
	FinalTimeout = 4 * time.Second
	// finalPause is the time between two attempts of this flush.
	finalPause = 100 * time.Millisecond
)

// Applier stores batches. [Store] implements it.
type Applier interface {
	// Apply adds a batch to the counts, in one transaction. It does nothing if it applied a batch with the same writer
	// and number before. The number of the first batch of a writer is 1, and each batch has the next number. Apply fails
	// with ErrForgotten, and changes nothing, if the store does not have the batch before. After any other error, the
	// batch may be stored, and Apply may be repeated with the same batch.
	Apply(ctx context.Context, b Batch) error
}

// ErrForgotten reports that a store does not have the batch before: the writer was idle for so long that its number
// was removed, or the database came back in an older state.
var ErrForgotten = errors.New("the store does not have the previous batch of this writer")

// Batch is a set of counts that is stored in one transaction. The rows and the facets are sorted by their keys, so that
// the transactions of two servers lock them in the same order.
type Batch struct {
	Writer   string
	Sequence int64
	Rows     []Row
	Facets   []FacetRow
}

// Row is the count of a link in an hour.
type Row struct {
	Code  string
	Hour  int64 // hours since 1970
	Owner int64
	Count
}

// FacetRow is the count of a value of a facet of a link on a day.
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

	mu       sync.Mutex // held during a flush
	writer   string
	sequence int64     // number of the last batch that is stored
	batches  []Batch   // batches of the flush in progress
	tried    bool      // whether an attempt to store batches[0] failed with an unknown result
	drained  time.Time // when batches were taken from the counter
}

func (c *Counter) start() {
	c.writer = rand.Text()
	now := c.Now()
	c.stored.Store(&now)
	c.Metrics.stored.Set(float64(now.Unix()))
}

// AsOf returns the time until which all visits that this server counted are in the database. It is the start of the
// last flush that succeeded, also if there was nothing to store. It does not block.
func (c *Counter) AsOf() time.Time { return c.stored.Load().UTC() }

// Run flushes the counts at each interval until ctx ends, and then once more, within FinalTimeout. It fails if the
// last flush fails. The caller must end ctx after the last visit.
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

// flushFinally repeats a flush until it succeeds or FinalTimeout has passed.
func (c *Counter) flushFinally(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, FinalTimeout)
	defer cancel()
	for {
		err := c.FlushNow(ctx) // it may only repeat a flush that was in progress
		left := c.unstored()
		switch {
		case err == nil && left == 0:
			return nil
		case err == nil:
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the visits of %d links and hours are lost: %w", left, err)
		case <-time.After(finalPause):
		}
	}
}

// FlushNow stores the counts. If the previous flush failed, FlushNow only repeats what that flush did not store. It
// blocks until the database answers, for at most five seconds for each 4096 rows.
func (c *Counter) FlushNow(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.batches) == 0 {
		c.drained = c.Now()
		c.batches = batchesOf(c.drain())
	}
	err := c.apply(ctx)
	c.Metrics.pending.Set(float64(c.size() + rowsOf(c.batches)))
	if err != nil {
		c.Metrics.failures.Inc()
		return err
	}
	drained := c.drained
	c.stored.Store(&drained)
	c.Metrics.stored.Set(float64(drained.Unix()))
	return nil
}

func (c *Counter) unstored() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size() + rowsOf(c.batches)
}

// apply stores the batches, and removes each batch that is stored.
func (c *Counter) apply(ctx context.Context) error {
	for len(c.batches) > 0 {
		b := &c.batches[0]
		b.Writer, b.Sequence = c.writer, c.sequence+1
		err := c.applyOne(ctx, *b)
		if errors.Is(err, ErrForgotten) {
			c.writer, c.sequence = rand.Text(), 0
			if !c.tried {
				continue
			}
			c.drop(b) // an earlier attempt may have stored it, and a visit counts at most once
			err = nil
		} else if err == nil {
			c.sequence++
		}
		c.tried = err != nil
		if err != nil {
			return err
		}
		c.batches = c.batches[1:]
	}
	c.batches = nil
	return nil
}

func (c *Counter) applyOne(ctx context.Context, b Batch) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	return c.Store.Apply(ctx, b)
}

// drop counts the visits of a batch as dropped.
func (c *Counter) drop(b *Batch) {
	for i := range b.Rows {
		c.Metrics.dropped.Add(float64(b.Rows[i].Sum()))
	}
}

// batchesOf divides counts into batches.
func batchesOf(rows []Row, facets []FacetRow) (batches []Batch) {
	for part := range slices.Chunk(rows, batchRows) {
		batches = append(batches, Batch{Rows: part})
	}
	i := 0
	for part := range slices.Chunk(facets, batchRows) {
		if i == len(batches) {
			batches = append(batches, Batch{})
		}
		batches[i].Facets = part
		i++
	}
	return batches
}

func rowsOf(batches []Batch) (n int) {
	for i := range batches {
		n += len(batches[i].Rows)
	}
	return n
}
