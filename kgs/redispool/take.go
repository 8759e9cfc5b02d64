package redispool

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"keypool/kgs"
)

// scriptTake moves up to n codes from the list to a batch. Arguments: holder, batch id, n. The
// script returns the epoch and the codes, joined by spaces, or nothing.
//
// If the holder has used the batch id before, the script returns the batch on record. If that batch
// is already settled, the script returns no codes. In this case, the request is the first attempt
// of a Take and arrives late: the holder has already repeated the Take and settled the batch. No
// client waits for the reply.
//
// If the holder crashes after this script, the batch stays on record until Sweep writes it off.
//
// HDEL changes nothing, but makes Redis accept the script at its maxmemory limit. At this
// limit, Redis refuses a script whose first write may grow the data, but it accepts every later write.
// The first HSET stores the last batch id of the holder again, or 0 for a new holder. If the user
// lacks the right to HSET, the script fails there, before it removes codes that it cannot record.
const scriptTake = scriptGuard + `
local holder, id, n = unpack(ARGV)
local field = holder .. '/' .. id
local last = tonumber(redis.call('HGET', takes, holder) or 0)
if tonumber(id) <= last then
	local recorded = redis.call('HGET', batches, field)
	return recorded and epoch .. ' ' .. recorded or ''
end
redis.call('HDEL', state, 'none')
redis.call('HSET', takes, holder, last)
local codes = redis.call('LPOP', keys, n)
redis.call('HSET', takes, holder, id)
if not codes then return '' end
local blob = table.concat(codes, ' ')
redis.call('HSET', batches, field, blob)
redis.call('HINCRBY', state, 'popped', #codes)
return epoch .. ' ' .. blob
`

// Take takes up to n keys. If the reply to the previous Take was lost, Take returns the batch of
// that call, which may have more than n keys. Take fails with [kgs.ErrEmpty] when the pool is empty, and
// with [kgs.ErrNoEpoch] when the pool lost its state.
func (p *Pool) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer p.turn.Release(1)
	reply, err := p.run(ctx, p.scripts.take, p.cfg.Holder, p.next, n).Text()
	p.refused.note(err, p.cfg.Alarm, "Redis refuses to give keys")
	if err != nil {
		return nil, fmt.Errorf("take from the pool: %w", err)
	}
	id := p.next
	p.next++
	if reply == "" {
		return nil, kgs.ErrEmpty
	}
	text, codes, _ := strings.Cut(reply, " ")
	epoch, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("take from the pool: the epoch %.40q: %w", text, errReplyForm)
	}
	b := &kgs.Batch{ID: id, Source: kgs.SourcePool, Codes: strings.Split(codes, " ")}
	if b.Codes, err = p.withoutInvalid(ctx, b.Codes); err != nil {
		return nil, err
	}
	if len(b.Codes) == 0 {
		return nil, kgs.ErrEmpty
	}
	p.held.add(b, epoch)
	return b, nil
}

// scriptSettle ends a batch. It returns the unused codes to the list, and records the lost codes
// for Sweep. Arguments: holder, batch id, unused codes, lost codes, the reason for the lost
// codes, the first code of the batch, the epoch in which the batch was taken. The script returns two
// numbers: 1 if it ended the batch or 0 if it changed nothing, and the epoch of the pool.
//
// If the batch was taken in an earlier epoch, its unused codes do not return to the list, and its record has another
// name; see heldBatches.
//
// The script changes nothing in two cases:
//
//   - The batch is not on record. It was settled before, Sweep has moved it to the write-offs, or a new
//     epoch deleted its record.
//   - The record does not begin with the given first code. The record then belongs to another batch: a
//     Take of an earlier epoch arrived late and created that batch in this epoch under the same id.
//
// If the holder crashes before this script, Sweep abandons the whole batch. If the holder crashes
// after this script, Sweep abandons only the lost codes.
const scriptSettle = scriptGuard + `
local holder, id, unused, lost, reason, first, taken = unpack(ARGV)
local field = holder .. '/' .. id
if tonumber(taken) ~= tonumber(epoch) then field, unused = field .. '@' .. taken, '' end
local codes = redis.call('HGET', batches, field)
if not codes then return {0, tonumber(epoch)} end
if string.sub(codes, 1, #first) ~= first then return {0, tonumber(epoch)} end
redis.call('HDEL', batches, field)
giveBack(unused)
if lost ~= '' then redis.call('HSET', writeOffs, reason .. '/' .. field, lost) end
return {1, tonumber(epoch)}
`

// Settle reports what happened to the keys of b; see [kgs.Supply]. Settle does not wait for the
// ledger: Redis keeps the lost codes on record, and Sweep reports them to the ledger later.
// The pool does not take back unused keys of an earlier epoch: they are abandoned with their epoch.
func (p *Pool) Settle(ctx context.Context, b *kgs.Batch, unused, lost []string) error {
	if err := p.held.recording.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.held.recording.Release(1)
	batch := p.held.find(b.ID)
	if batch == nil { // already settled
		return nil
	}
	abandoned, err := p.settle(ctx, batch, unused, lost)
	if err != nil {
		return fmt.Errorf("settle batch %d in the pool: %w", b.ID, err)
	}
	p.held.remove(batch)
	if abandoned && p.cfg.Metrics != nil {
		p.cfg.Metrics.CountAbandoned(kgs.ReasonEarlierEpoch, int64(len(unused)))
	}
	return nil
}

// settle ends b in Redis. The result abandoned reports whether the unused keys are abandoned with their epoch. If b was
// on record in the present epoch and the record no longer exists, settle returns false, because it cannot distinguish two
// cases: a Sweep has abandoned the whole batch because this holder seemed dead, or the reply to an earlier settle of b was
// lost.
func (p *Pool) settle(ctx context.Context, b *heldBatch, unused, lost []string) (abandoned bool, err error) {
	reply, err := p.run(ctx, p.scripts.settle, p.cfg.Holder, b.id, strings.Join(unused, " "), strings.Join(lost, " "),
		kgs.ReasonLostReply, b.codes[0], b.epoch).Int64Slice()
	if errors.Is(err, kgs.ErrNoEpoch) { // the next epoch abandons this batch
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if len(reply) != 2 { // if the epoch is missing or not a number, the reply ends before it
		return false, fmt.Errorf("%w: %d numbers", errReplyForm, len(reply))
	}
	found, epoch := reply[0] == 1, reply[1]
	if found {
		return b.epoch != epoch, nil
	}
	return b.recorded != epoch, nil
}

// scriptRelease ends the use of the pool by a holder. Arguments: holder, the id of its next batch.
// If the reply to the last Take of the holder was lost, a batch is on record under this id. The
// holder never received these codes, so they go back to the list.
//
// The entry in takes stays, because an earlier Take of the holder may still arrive late. Without
// the entry, scriptTake would treat this Take as new and would overwrite a batch that is on record
// under the same id.
const scriptRelease = scriptGuard + `
local holder, id = unpack(ARGV)
local field = holder .. '/' .. id
local unread = redis.call('HGET', batches, field)
redis.call('HDEL', batches, field)
if unread then giveBack(unread) end
return 1
`

// Release ends the use of the pool by this holder. Call it after the last Settle. If the holder did not read the reply
// to its last Take, the keys of that reply go back to the pool. Release keeps any other unsettled batch on record. When
// the ledger no longer has the holder, a Sweep abandons such a batch.
func (p *Pool) Release(ctx context.Context) error {
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.turn.Release(1)
	err := p.run(ctx, p.scripts.release, p.cfg.Holder, p.next).Err()
	if err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
		return fmt.Errorf("release the holder in the pool: %w", err)
	}
	return nil
}
