package kgs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
)

const (
	// readChunk is how many codes Snapshot reads at a time: about 2 ms of Redis' time.
	readChunk = 10_000
	// readTries is how often Snapshot asks a Redis that does not answer in time.
	readTries = 5
)

// Snapshot yields the codes of the pool for an audit, first those in the list, then those
// in batches, while others push, take and settle. A code that was there all the time is
// yielded at least once, and twice when it moved meanwhile. One that was taken and
// linked meanwhile may be missing, so read the links after the pool; one that was
// pushed meanwhile too, so read the ledger before. It ends at the first error, which
// is ErrFenced when a new epoch began.
func (p *RedisPool) Snapshot(ctx context.Context) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		var c poolChunk
		for !c.last {
			var err error
			if c, err = p.read(ctx, c.epoch, c.next); err != nil {
				yield(Found{}, fmt.Errorf("read the pool: %w", err))
				return
			}
			for i, part := range c.parts {
				for code := range strings.FieldsSeq(part) {
					if !yield(Found{Code: code, Batch: i > 0}, nil) {
						return
					}
				}
			}
		}
	}
}

// poolChunk is a part of the pool at one moment. The zero value is before the first.
type poolChunk struct {
	epoch string
	next  string   // position of the next chunk
	last  bool     // nothing follows
	parts []string // codes, joined by spaces: of the list, and in the last chunk of each batch
}

// read changes nothing, so it may be repeated; and an audit has the time that a creation
// has not.
func (p *RedisPool) read(ctx context.Context, epoch, from string) (poolChunk, error) {
	var reply []string
	var err error
	for range readTries {
		reply, err = p.run(ctx, p.scripts.read, epoch, from, readChunk).StringSlice()
		if err == nil || errors.Is(err, ErrNoEpoch) || errors.Is(err, ErrFenced) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return poolChunk{}, err
	}
	return poolChunk{epoch: reply[0], next: reply[1], last: reply[2] != "", parts: reply[3:]}, nil
}
