package kgs

import (
	"sync"
	"sync/atomic"
	"time"
)

// LocalBatch is one batch that a Source hands out. It counts the codes that are neither used nor lost.
// When the count reaches zero, the Source settles the batch with its supply. Until then, the supply
// keeps a record of the batch. Therefore every key that a crash loses is on record.
//
// For each key that Source.Next returns, the caller makes exactly one call of Used, Returned or Lost.
// These methods do not block and are safe for concurrent use.
type LocalBatch struct {
	batch  Batch
	source *Source
	next   atomic.Int64 // index of the code to hand out next; may exceed the last index
	open   atomic.Int64 // number of codes that are neither used nor lost

	since time.Time // time at which the batch became the current batch; guarded by source.mu

	mu   sync.Mutex
	lost []string
}

func newLocalBatch(s *Source, b *Batch) *LocalBatch {
	l := &LocalBatch{batch: *b, source: s}
	l.open.Store(int64(len(b.Codes)))
	return l
}

// left returns the number of codes that are not yet handed out.
func (l *LocalBatch) left() int64 {
	return max(0, int64(len(l.batch.Codes))-l.next.Load())
}

// Used reports that the link store has a row with a code of this batch.
func (l *LocalBatch) Used() { l.close() }

// Lost reports that it is unknown whether the link store has code. The code is abandoned.
func (l *LocalBatch) Lost(code string) {
	l.mu.Lock()
	l.lost = append(l.lost, code)
	l.mu.Unlock()
	l.close()
}

// Returned reports that the creation stored no link with code. A later creation gets the code. If the source is closed
// before that creation, the code goes back to the supply.
func (l *LocalBatch) Returned(code string) {
	s := l.source
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = append(s.returned, Key{Code: code, Source: l.batch.Source, Batch: l, Again: true})
	s.reused.Store(int64(len(s.returned)))
}

func (l *LocalBatch) close() {
	if l.open.Add(-1) == 0 {
		l.source.finish(l)
	}
}
