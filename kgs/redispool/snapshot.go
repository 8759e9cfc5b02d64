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

// scriptRead returns a part of the pool. Arguments: epoch, position, n. In the first call, the
// epoch and the position are empty.
//
// A position counts from the first code that was pushed in this epoch, so a Take between two calls
// does not shift it. The call that reaches the end of the list also returns all batches and all
// write-offs. So every code that was in the pool at the first call is in one of the replies, or has
// left the pool since.
const scriptRead = scriptGuard + `
if ARGV[1] ~= '' and ARGV[1] ~= epoch then return redis.error_reply('FENCED a newer epoch was opened') end
local popped, n = tonumber(redis.call('HGET', state, 'popped')), tonumber(ARGV[3])
local from = math.max((tonumber(ARGV[2]) or 0) - popped, 0)
local codes = redis.call('LRANGE', keys, from, from + n - 1)
local last = #codes < n
local position = string.format('%d', popped + from + #codes)
local reply = {epoch, position, last and 'last' or '', table.concat(codes, ' ')}
if last then
	for _, batch in ipairs(redis.call('HVALS', batches)) do reply[#reply + 1] = batch end
	for _, batch in ipairs(redis.call('HVALS', writeOffs)) do reply[#reply + 1] = batch end
end
return reply
`

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
