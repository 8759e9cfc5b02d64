package kgs

import (
	"sync"
	"sync/atomic"
	"time"
)

// LocalBatch is one batch in the hands of a Source. It counts the fates of its codes;
// when the last one is known, the batch is settled with its supply. Until then the
// supply has it on record by name, so a crash at any moment leaves no key
// unaccounted for.
//
// For each code that was handed out exactly one of Spent, Unused and Lost is to be
// called, once. They do not block and may be called concurrently.
type LocalBatch struct {
	batch  *Batch
	source *Source
	next   atomic.Int64 // index of the code to hand out next; may run past the end
	open   atomic.Int64 // codes whose fate is not known

	since time.Time // when it became current; under the source's lock

	mu   sync.Mutex
	lost []string
}

func newLocalBatch(s *Source, b *Batch) *LocalBatch {
	l := &LocalBatch{batch: b, source: s}
	l.open.Store(int64(len(b.Codes)))
	return l
}

// left is how many codes were not handed out yet.
func (l *LocalBatch) left() int64 {
	return max(0, int64(len(l.batch.Codes))-l.next.Load())
}

// Spent says that the link store holds a row with a code of this lease.
func (l *LocalBatch) Spent() { l.close() }

// Lost says that code may or may not be in the link store: it is abandoned.
func (l *LocalBatch) Lost(code string) {
	l.mu.Lock()
	l.lost = append(l.lost, code)
	l.mu.Unlock()
	l.close()
}

// Unused says that code is surely not in the link store: the next creation gets it.
func (l *LocalBatch) Unused(code string) {
	s := l.source
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = append(s.returned, Key{Code: code, Source: l.batch.Source, Batch: l})
	s.reused.Store(int64(len(s.returned)))
}

func (l *LocalBatch) close() {
	if l.open.Add(-1) == 0 {
		l.source.finish(l)
	}
}

// finish queues a lease for settlement. The queue cannot grow without bound: no
// batch is taken while one is waiting to be settled.
func (s *Source) finish(l *LocalBatch) {
	s.mu.Lock()
	s.finished = append(s.finished, l)
	s.mu.Unlock()
	s.want()
}
