package ledger

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"keypool/kgs"
)

const (
	watchInterval = 2 * time.Second // time between two reads of the counters
	// watchStale is the age at which Fresh no longer returns the counters.
	watchStale = 3 * watchInterval
	// takeWindow is the time over which the rate is measured. It is long because all keys of a batch are counted at
	// once, when the batch is settled.
	takeWindow = 24 * time.Hour
)

// Watch keeps a recent copy of a ledger's counters, so that neither a scrape of the metrics nor a
// fallback queries the database. Run must be called once. The other methods are safe for concurrent use.
type Watch struct {
	counters func(context.Context) (Counters, error)
	length   int            // minimum length of the codes
	failures kgs.FailureLog // only Run uses it
	meter    kgs.Meter      // rate of taken numbers; only Run uses it
	lastID   int64          // Counters.LastID at the last read; only Run uses it
	last     atomic.Pointer[Observed]
}

// Observed holds the counters at one moment.
type Observed struct {
	Counters
	// Rate is the growth of Counters.Taken per second, over all processes. It is an average over takeWindow, or over the
	// time since the start of the watch, the last rollback or the last skip-ahead, if this time is shorter.
	Rate float64
	at   time.Time
}

// NewWatch returns a watch that reads the ledger with the function counters, such as
// [Ledger.Counters]. length is the minimum length of the codes. The watch has no counters until
// Run reads them.
func NewWatch(counters func(context.Context) (Counters, error), length int, log *slog.Logger) *Watch {
	return &Watch{
		counters: counters, length: length,
		failures: kgs.NewFailureLog(log, "read the counters of the ledger"), meter: kgs.NewMeter(takeWindow),
	}
}

// Run reads the counters every two seconds until ctx ends, and returns nil. While the database
// cannot be reached, the watch keeps the last counters. Run logs the first error of a series and
// the success that ends the series.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		err := w.read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		w.failures.Note(err)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *Watch) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchInterval)
	defer cancel()
	counters, err := w.counters(ctx)
	if err != nil {
		return err
	}
	// A rollback lowers Counters.Taken. A skip-ahead raises it, although no creation takes the skipped numbers. Therefore
	// the measurement starts anew after each of them. The last id shows both: a rollback lowers it, and a skip-ahead
	// raises it by at least skipIDs. If both happen between two reads, the increase between the reads can be smaller
	// than skipIDs. Therefore the limit is half of skipIDs.
	if grown := counters.LastID - w.lastID; grown < 0 || grown > skipIDs/2 {
		w.meter = kgs.NewMeter(takeWindow)
	}
	w.lastID = counters.LastID
	now := time.Now()
	w.meter.Sample(counters.Taken(), now)
	w.last.Store(&Observed{Counters: counters, Rate: w.meter.Rate(), at: now})
	return nil
}

// Fresh returns the last counters, or nil if they are older than six seconds.
func (w *Watch) Fresh() *Observed {
	if last := w.last.Load(); last != nil && time.Since(last.at) < watchStale {
		return last
	}
	return nil
}

// Length returns the code length in use according to the last counters, whatever their age. Before the first read, it
// returns the minimum length.
func (w *Watch) Length() int {
	if last := w.last.Load(); last != nil {
		return last.Current(w.length).Length
	}
	return w.length
}
