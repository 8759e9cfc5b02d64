package redispool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"keypool/kgs"
	"keypool/kgs/ledger"
)

// abandonChunk is the largest number of ranges in one call of Ledger.Abandon. A call needs several statements for each
// range, so a call with all ranges of a large write-off could exceed its deadline in every Sweep.
const abandonChunk = 200

// Sweep abandons the batches of dead holders, and the keys that were settled as lost. It returns how many keys of dead
// holders it abandoned, even if it fails. At the end, Sweep makes new records of the batches that this holder took in an
// earlier epoch, so that the audit finds the keys of these batches. This is the last step, because it needs memory in
// Redis: a Redis at its maxmemory limit refuses this step, but still accepts the other steps.
//
// Sweep abandons keys in three steps. It moves a batch to the write-offs, so that a holder that was only
// frozen cannot settle the batch. It reports the codes to the ledger. Then it deletes the write-off
// from Redis. After a crash between two steps, the next Sweep of any process continues. That Sweep may
// report codes a second time. The ledger counts these codes only once.
func (p *Pool) Sweep(ctx context.Context) (abandoned int64, err error) {
	epoch, fields, err := p.batchesOnRecord(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the batches on record: %w", err)
	}
	abandoned, err = p.writeOff(ctx, fields)
	return abandoned, errors.Join(err, p.settleLate(ctx), p.recordAgain(ctx, epoch))
}

// scriptHolders returns the epoch, and then <holder>/<batch id> for every batch on record.
const scriptHolders = scriptGuard + `
local reply = redis.call('HKEYS', batches)
table.insert(reply, 1, epoch)
return reply
`

// batchesOnRecord returns the epoch of the pool, and <holder>/<batch id> for every batch on record.
func (p *Pool) batchesOnRecord(ctx context.Context) (epoch int64, fields []string, err error) {
	reply, err := p.run(ctx, p.scripts.holders).StringSlice()
	if err != nil {
		return 0, nil, err
	}
	epoch, err = strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return 0, nil, fmt.Errorf("the epoch %.40q: %w", reply[0], errReplyForm)
	}
	return epoch, reply[1:], nil
}

// scriptListWriteOffs returns the fields of all write-offs.
const scriptListWriteOffs = scriptGuard + `
return redis.call('HKEYS', writeOffs)
`

// writeOff abandons the codes of all write-offs. First it moves the batches of dead holders to the write-offs. fields
// lists <holder>/<batch id> for every batch on record. writeOff tries each write-off once, so a write-off that fails in
// every Sweep does not block the others.
func (p *Pool) writeOff(ctx context.Context, fields []string) (abandoned int64, err error) {
	if err := p.withdraw(ctx, fields); err != nil {
		return 0, fmt.Errorf("write off the batches of dead holders: %w", err)
	}
	entries, err := p.run(ctx, p.scripts.listWriteOffs).StringSlice()
	if err != nil {
		return 0, fmt.Errorf("list the write-offs: %w", err)
	}
	var errs []error
	for _, field := range entries {
		n, err := p.writeOffOne(ctx, field)
		abandoned += n
		// After ErrShipping, a later Sweep succeeds: a worker pushes or adopts the range that is on its way to the pool,
		// and delivers it. Until then, the audit counts the codes of the write-off as keys of a batch, except the codes
		// that are already abandoned.
		if err != nil && !errors.Is(err, ledger.ErrShipping) {
			errs = append(errs, fmt.Errorf("write off batch %s: %w", field, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return abandoned, errors.Join(errs...)
}

// scriptReadWriteOff returns the codes of a write-off, or nil if the write-off was deleted. Argument: the field.
const scriptReadWriteOff = scriptGuard + `
return redis.call('HGET', writeOffs, ARGV[1])
`

// scriptDropWriteOff deletes a write-off. Argument: the field. The script returns 1 if this call
// deleted the entry, and 0 otherwise.
const scriptDropWriteOff = scriptGuard + `
return redis.call('HDEL', writeOffs, ARGV[1])
`

// writeOffOne abandons the codes of one write-off and deletes the write-off. It returns how many keys of a dead holder it
// abandoned.
func (p *Pool) writeOffOne(ctx context.Context, field string) (abandoned int64, err error) {
	text, err := p.run(ctx, p.scripts.readWriteOff, field).Text()
	if errors.Is(err, redis.Nil) { // another process has deleted the write-off
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the write-off: %w", err)
	}
	codes := strings.Split(text, " ")
	reason, _, _ := strings.Cut(field, "/")
	if err := p.abandon(ctx, codes, reason); err != nil {
		return 0, err
	}
	dropped, err := p.run(ctx, p.scripts.dropWriteOff, field).Int64()
	if err != nil {
		return 0, fmt.Errorf("delete the write-off: %w", err)
	}
	if reason == kgs.ReasonCrash {
		abandoned = dropped * int64(len(codes)) // dropped is 0 if another process has deleted the write-off
	}
	return abandoned, nil
}

// scriptWithdraw moves the batches of dead holders to the write-offs, where these holders cannot
// settle them. Arguments: reason, dead holders. The entries in takes stay, because a holder may only
// have been frozen, and one of its old Takes may still arrive.
const scriptWithdraw = scriptGuard + `
local reason, dead = ARGV[1], {}
for i = 2, #ARGV do dead[ARGV[i]] = true end
for _, field in ipairs(redis.call('HKEYS', batches)) do
	if dead[string.match(field, '^(.*)/')] then
		local codes = redis.call('HGET', batches, field)
		redis.call('HDEL', batches, field)
		redis.call('HSET', writeOffs, reason .. '/' .. field, codes)
	end
end
return 1
`

// withdraw moves the batches of the dead holders in fields to the write-offs. If the holder of a batch in fields is not
// in the ledger, the holder is certainly dead. The reason is that the ledger records a holder before the holder takes
// keys, and that withdraw reads the ledger after its caller has read fields from the pool.
func (p *Pool) withdraw(ctx context.Context, fields []string) error {
	alive, err := p.cfg.Ledger.Holders(ctx)
	if err != nil {
		return err
	}
	args := []any{kgs.ReasonCrash}
	for _, field := range fields {
		holder, _, _ := strings.Cut(field, "/")
		if !slices.Contains(alive, holder) && !slices.Contains(args, any(holder)) {
			args = append(args, holder)
		}
	}
	if len(args) == 1 {
		return nil
	}
	return p.run(ctx, p.scripts.withdraw, args...).Err()
}

// abandon reports codes to the ledger. It leaves out strings that cannot be codes, and repetitions.
func (p *Pool) abandon(ctx context.Context, codes []string, reason string) error {
	codes, err := p.withoutInvalid(ctx, codes)
	if err == nil {
		codes, err = p.withoutRepeated(ctx, codes)
	}
	if err != nil {
		return err
	}
	ranges, err := p.cfg.Space.Ranges(codes)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ranges, abandonChunk) {
		if err := p.cfg.Ledger.Abandon(ctx, part, reason); err != nil {
			return err
		}
	}
	return nil
}
