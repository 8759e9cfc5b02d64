package redispool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"keypool/kgs"
)

const (
	// readChunk is how many codes Snapshot reads at a time: about 2 ms of Redis' time.
	readChunk = 10_000
	// readTries is how often an audit asks a Redis that does not answer in time.
	readTries = 5
)

// poolChunk is a part of the pool at one moment. The zero value is before the first.
type poolChunk struct {
	epoch string
	next  string   // position of the next chunk
	last  bool     // nothing follows
	parts []string // codes, joined by spaces: of the list, and in the last chunk of each batch
}

// again repeats a read that Redis did not answer. It changes nothing, and an audit has
// the time that a creation has not.
func again(ctx context.Context, read func() error) (err error) {
	for range readTries {
		err = read()
		if err == nil || errors.Is(err, kgs.ErrNoEpoch) || errors.Is(err, kgs.ErrFenced) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// Snapshot yields the codes of the pool for an audit, first those in the list, then those
// in batches, while others push, take and settle. A code that was there all the time is
// yielded at least once, and twice when it moved meanwhile. One that was taken and
// linked meanwhile may be missing, so read the links after the pool; one that was
// pushed meanwhile too, so read the ledger before. It ends at the first error, which
// is ErrFenced when a new epoch began.
func (p *Pool) Snapshot(ctx context.Context) iter.Seq2[kgs.PoolEntry, error] {
	return func(yield func(kgs.PoolEntry, error) bool) {
		var c poolChunk
		for !c.last {
			var err error
			if c, err = p.read(ctx, c.epoch, c.next); err != nil {
				yield(kgs.PoolEntry{}, fmt.Errorf("read the pool: %w", err))
				return
			}
			for i, part := range c.parts {
				for code := range strings.FieldsSeq(part) {
					if !yield(kgs.PoolEntry{Code: code, InBatch: i > 0}, nil) {
						return
					}
				}
			}
		}
	}
}

// Epoch is the one that the pool is open for.
func (p *Pool) Epoch(ctx context.Context) (epoch int64, err error) {
	err = again(ctx, func() error {
		status, err := p.Status(ctx)
		epoch = status.Epoch
		return err
	})
	return epoch, err
}

func (p *Pool) read(ctx context.Context, epoch, from string) (poolChunk, error) {
	var reply []string
	err := again(ctx, func() (err error) {
		reply, err = p.run(ctx, p.scripts.read, epoch, from, readChunk).StringSlice()
		return err
	})
	if err != nil {
		return poolChunk{}, err
	}
	return poolChunk{epoch: reply[0], next: reply[1], last: reply[2] != "", parts: reply[3:]}, nil
}
