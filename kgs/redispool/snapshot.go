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
	// readChunk is how many codes Snapshot reads in one call, which takes Redis about 2 ms.
	readChunk = 10_000
	// readTries is the maximum number of attempts of a read.
	readTries = 5
)

// poolChunk is a part of the pool at one moment. The zero value is the position before the first
// chunk.
type poolChunk struct {
	epoch string
	next  string // position of the next chunk
	last  bool   // whether this is the last chunk
	// parts holds codes that are joined by spaces. The first part comes from the list. In the last
	// chunk, each further part is a batch or a write-off.
	parts []string
}

// retry calls read until it succeeds, at most readTries times. It does not repeat a read that fails with ErrNoEpoch or
// ErrFenced. A repetition is safe, because a read changes nothing. The attempts may take several seconds, so only
// audits call this function.
func retry(ctx context.Context, read func() error) (err error) {
	for range readTries {
		err = read()
		if err == nil || errors.Is(err, kgs.ErrNoEpoch) || errors.Is(err, kgs.ErrFenced) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// Snapshot yields the codes of the pool for an audit. It yields first the codes in the list and
// then the codes in batches and write-offs. Other processes may push, take and settle during the
// snapshot:
//
//   - A code that is in the list, a batch or a write-off during the whole snapshot is yielded at
//     least once. If it moves from one of these places to another, it may be yielded twice.
//   - A code that is taken and linked during the snapshot may be missing. The audit still finds the
//     code, because the audit reads the links after the pool.
//   - A code that is pushed during the snapshot may be missing. The audit still finds the code in its
//     range, because the audit reads the ledger before the pool.
//
// Snapshot ends at the first error. The error is [kgs.ErrFenced] if a new epoch began.
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

// Epoch returns the epoch for which the pool is open. It repeats a failed call as
// described at retry.
func (p *Pool) Epoch(ctx context.Context) (epoch int64, err error) {
	err = retry(ctx, func() error {
		status, err := p.Status(ctx)
		epoch = status.Epoch
		return err
	})
	return epoch, err
}

func (p *Pool) read(ctx context.Context, epoch, from string) (poolChunk, error) {
	var reply []string
	err := retry(ctx, func() (err error) {
		reply, err = p.run(ctx, p.scripts.read, epoch, from, readChunk).StringSlice()
		return err
	})
	if err != nil {
		return poolChunk{}, err
	}
	if len(reply) < 3 {
		return poolChunk{}, errReplyForm
	}
	return poolChunk{epoch: reply[0], next: reply[1], last: reply[2] != "", parts: reply[3:]}, nil
}
