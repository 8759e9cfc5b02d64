package redispool

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"keypool/kgs"
)

// held is the batches that this process took from one list and did not settle yet.
//
// A new epoch deletes the records of all batches, because Redis may have lost some of them. The holders still use the keys of these
// batches. Therefore each holder records its batches of earlier epochs again. The keys of such a batch never return to the list: Redis
// may have lost the record that the batch was written off.
type held struct {
	recording chan struct{} // a mutex that respects contexts: a batch is settled or recorded again, not both at once; its capacity is 1

	mu      sync.Mutex
	epoch   int64 // the newest epoch that the pool reported
	batches map[int64]*heldBatch
}

// heldBatch is one batch.
type heldBatch struct {
	id       int64
	codes    []string
	epoch    int64 // in which the batch was taken
	recorded int64 // in which the pool has the batch on record
}

func newHeld() *held {
	return &held{recording: make(chan struct{}, 1), batches: make(map[int64]*heldBatch)}
}

// add adds a batch that was taken in epoch.
func (h *held) add(b *kgs.Batch, epoch int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch = max(h.epoch, epoch)
	h.batches[b.ID] = &heldBatch{b.ID, b.Codes, epoch, epoch}
}

func (h *held) remove(id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.batches, id)
}

// unrecorded returns the batches of epochs before epoch that are not on record in it.
func (h *held) unrecorded(epoch int64) (batches []*heldBatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch = max(h.epoch, epoch)
	for _, b := range h.batches {
		if b.recorded < epoch {
			batches = append(batches, b)
		}
	}
	return batches
}

// record returns the name under which the pool has the batch on record, and whether the batch is of an earlier epoch. The epoch is part
// of the name of such a batch, because a late Take of that epoch may create a batch with the same id.
func (h *held) record(id int64) (name string, earlier bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.batches[id]
	if b == nil || b.epoch >= h.epoch {
		return strconv.FormatInt(id, 10), false
	}
	return b.name(), true
}

// name is the name of the record of a batch of an earlier epoch.
func (b *heldBatch) name() string { return fmt.Sprintf("%d@%d", b.id, b.epoch) }

func (h *held) has(b *heldBatch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.batches[b.id] == b
}

func (h *held) lock(ctx context.Context) error {
	select {
	case h.recording <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *held) unlock() { <-h.recording }

// recordAgain records the batches of earlier epochs in epoch. If this process crashes before that, an audit
// counts the keys as abandoned with their epoch. After a later crash, Sweep writes them off. If the pool has begun another epoch in the
// meantime, the next Sweep records the batches in that epoch.
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

func (p *Pool) recordOne(ctx context.Context, b *heldBatch, epoch int64) error {
	if err := p.held.lock(ctx); err != nil {
		return err
	}
	defer p.held.unlock()
	if !p.held.has(b) { // settled in the meantime
		return nil
	}
	if err := p.run(ctx, p.scripts.record, epoch, p.cfg.Holder, b.name(), strings.Join(b.codes, " ")).Err(); err != nil {
		return err
	}
	p.held.mu.Lock()
	defer p.held.mu.Unlock()
	b.recorded = epoch
	return nil
}
