package redispool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"keypool/kgs"
)

// heldBatches holds the batches that this process took from one list and has not settled yet.
//
// A new epoch deletes the records of all batches, because Redis may have lost some of them. The holders still use the
// keys of these batches. Therefore each holder records its batches of earlier epochs again. The keys of such a batch
// never return to the list, because they may already be abandoned: Sweep may have written the batch off, and Redis may
// have lost the write-off.
type heldBatches struct {
	// A call that settles a batch, or records a batch again, holds recording. Unlike a wait for a sync.Mutex, a wait
	// for recording ends when the context ends.
	recording *semaphore.Weighted

	mu      sync.Mutex
	batches map[int64]*heldBatch
	late    []*heldBatch // settled batches; a script that arrives late may record them again
}

// heldBatch is one batch.
type heldBatch struct {
	id       int64
	codes    []string
	epoch    int64 // epoch in which the batch was taken
	recorded int64 // epoch in which the pool has the batch on record
	unclear  bool  // a call to record the batch failed, and the script of this call may still reach Redis
}

func newHeldBatches() *heldBatches {
	return &heldBatches{recording: semaphore.NewWeighted(1), batches: make(map[int64]*heldBatch)}
}

// add adds a batch that was taken in the given epoch.
func (h *heldBatches) add(b *kgs.Batch, epoch int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches[b.ID] = &heldBatch{id: b.ID, codes: b.Codes, epoch: epoch, recorded: epoch}
}

func (h *heldBatches) remove(b *heldBatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.batches, b.id)
	if b.unclear {
		h.late = append(h.late, b)
	}
}

// takeLate returns the batches in h.late, and empties h.late.
func (h *heldBatches) takeLate() []*heldBatch {
	h.mu.Lock()
	defer h.mu.Unlock()
	late := h.late
	h.late = nil
	return late
}

func (h *heldBatches) addLate(batches []*heldBatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late = append(h.late, batches...)
}

// unrecorded returns the batches that are not on record in the given epoch. It also returns batches that are on record
// in an epoch with a higher number: after PostgreSQL and Redis both returned to older states, the present epoch may have
// a lower number than an earlier epoch.
func (h *heldBatches) unrecorded(epoch int64) (batches []*heldBatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.batches {
		if b.recorded != epoch {
			batches = append(batches, b)
		}
	}
	return batches
}

// find returns a batch, or nil if the batch is settled.
func (h *heldBatches) find(id int64) *heldBatch {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.batches[id]
}

// name returns the name under which the pool records a batch of an earlier epoch. The name contains the epoch, because
// a Take of that epoch may arrive late and create a batch with the same id in the present epoch.
func (b *heldBatch) name() string { return fmt.Sprintf("%d@%d", b.id, b.epoch) }

// recordAgain records the batches of earlier epochs in the present epoch. If this process crashes before a batch is
// recorded, an audit counts the keys of the batch as abandoned with their epoch. If the process crashes later, Sweep
// writes these keys off. If the pool has begun another epoch in the meantime, the next Sweep records the batches in
// that epoch.
func (p *Pool) recordAgain(ctx context.Context, epoch int64) error {
	for _, b := range p.held.unrecorded(epoch) {
		switch err := p.recordOne(ctx, b, epoch); {
		case errors.Is(err, kgs.ErrFenced), errors.Is(err, kgs.ErrNoEpoch):
			return nil
		case err != nil:
			return fmt.Errorf("record batch %s again: %w", b.name(), err)
		}
	}
	return nil
}

// scriptRecord records a batch of an earlier epoch; see heldBatches. Arguments: epoch of the pool, holder, name of the
// record, codes. The script may be repeated. It refuses if the pool has begun another epoch.
const scriptRecord = scriptWorker + `
local holder, name, codes = unpack(ARGV, 2)
redis.call('HSET', batches, holder .. '/' .. name, codes)
return 1
`

func (p *Pool) recordOne(ctx context.Context, b *heldBatch, epoch int64) error {
	if err := p.held.recording.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.held.recording.Release(1)
	if p.held.find(b.id) == nil { // settled in the meantime
		return nil
	}
	err := p.run(ctx, p.scripts.record, epoch, p.cfg.Holder, b.name(), strings.Join(b.codes, " ")).Err()
	p.held.mu.Lock()
	defer p.held.mu.Unlock()
	if err != nil {
		b.unclear = b.unclear || !errors.Is(err, kgs.ErrFenced) && !errors.Is(err, kgs.ErrNoEpoch)
		return err
	}
	b.recorded = epoch
	return nil
}

// settleLate deletes records of batches that are already settled. Such a record exists if a call to record the batch
// failed, and the script of this call reached Redis only after the batch was settled. The script has no effect if it
// arrives after a new epoch has begun.
func (p *Pool) settleLate(ctx context.Context) error {
	late := p.held.takeLate()
	for i, b := range late {
		if _, err := p.settle(ctx, b, nil, nil); err != nil {
			p.held.addLate(late[i:])
			return fmt.Errorf("delete the late record of batch %s: %w", b.name(), err)
		}
	}
	return nil
}
