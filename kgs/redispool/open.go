package redispool

import (
	"context"
	"fmt"
)

// scriptMayOpen begins the scripts that concern the opening of the pool. Argument: run, the history that the caller found.
// If Redis now has another history, the script refuses, and the caller must read the status again. The script also
// refuses if another database owns the pool and a worker of that database has confirmed this within the last minute.
const scriptMayOpen = scriptHead + `
if run ~= ARGV[1] then return redis.error_reply('NOEPOCH Redis has changed again') end
if isForeign and not isLeft then return redis.error_reply('FOREIGN the pool belongs to another database') end
`

// scriptCheckWrites makes a write that changes nothing. Redis answers with an error if it refuses writes at present, or
// if the user lacks a right that scriptOpen needs. UNLINK and HSET would change the pool, so the script does not execute
// them, but asks Redis whether the user has these two rights. A Redis before version 7 cannot answer this question, so
// the script does not check these rights there.
const scriptCheckWrites = scriptMayOpen + `
redis.call('HDEL', state, 'none')
redis.call('HGET', state, 'range')
redis.call('HKEYS', state)
redis.call('TIME')
local may = redis.acl_check_cmd
if may and not (may('UNLINK', unpack(KEYS)) and may('HSET', state, 'none', '')) then
	return redis.error_reply('NOPERM the Redis user lacks the right +unlink or +hset')
end
return 1
`

// CheckWrites checks that Open would succeed with runID at present. It changes nothing. It fails as Open does, for example
// with the error of Redis if Redis refuses to write.
func (p *Pool) CheckWrites(ctx context.Context, runID string) error {
	if err := p.run(ctx, p.scripts.checkWrites, runID).Err(); err != nil {
		return fmt.Errorf("check that the pool can be opened: %w", err)
	}
	return nil
}

// scriptOpen makes an empty pool for an epoch. Arguments: run, epoch. The ledger has recorded the history `run` for
// this epoch. The new pool keeps only the high-water mark of the old pool. If a value of the high-water mark is
// invalid, the script drops this value. If the pool is already open for this epoch or a later epoch, the script changes
// nothing and returns 0.
const scriptOpen = scriptMayOpen + `
local function within(value, most)
	local n = tonumber(value)
	return n and n >= 0 and n <= most
end
if opened == run and not isForeign and not damaged and within(epoch, 2^51) and tonumber(epoch) >= tonumber(ARGV[2]) then return 0 end
local range = redis.call('HGET', state, 'range')
local reached = {'range', within(range, 2^50) and range or 0}
for _, field in ipairs(redis.call('HKEYS', state)) do
	local length, next = tonumber(string.match(field, '^next:(%d+)$')), redis.call('HGET', state, field)
	if length and length >= 3 and length <= 10 and within(next, 62 ^ length) then
		reached[#reached + 1] = field
		reached[#reached + 1] = next
	end
end
redis.call('UNLINK', unpack(KEYS))
redis.call('HSET', state, 'run', run, 'epoch', ARGV[2], 'floor', 0, 'popped', 0, 'pushed', 0,
	'owner', caller, 'claimed', redis.call('TIME')[1], unpack(reached))
return 1
`

// Open makes an empty pool for epoch. runID is the name of the history for which the pool is
// opened; [Pool.Status] returns it. If the pool is open for this epoch or a later epoch, Open
// changes nothing. Open fails with [kgs.ErrNoEpoch] if Redis now has a history with another name, and
// with [ErrForeign] if another database owns the pool and a worker of that database has confirmed this
// within the last minute.
//
// Only the worker that began the epoch in the ledger may call Open for this epoch, and only once. A second
// Open for the same epoch after a flush would be unsafe: the marks of that epoch are lost, so a
// worker would push its current range again from the start.
func (p *Pool) Open(ctx context.Context, epoch int64, runID string) error {
	if err := p.run(ctx, p.scripts.open, runID, epoch).Err(); err != nil {
		return fmt.Errorf("open the pool for epoch %d: %w", epoch, err)
	}
	return nil
}

// scriptClaim confirms that the database of the calling worker owns the pool. A pool that an older release opened has no
// owner. The script then makes this database the owner. HDEL changes nothing, but makes Redis accept the script at its
// maxmemory limit; see scriptTake. Without HDEL, a live owner could not confirm the pool at this limit, and a copy of
// the database could take the pool over.
const scriptClaim = scriptGuard + `
redis.call('HDEL', state, 'none')
redis.call('HSET', state, 'owner', caller, 'claimed', redis.call('TIME')[1])
return 1
`

// Claim confirms that the database of this process owns the pool. Workers call Claim every few seconds. If no worker
// calls Claim for a minute, a worker of another database may take the pool over. Claim fails with [kgs.ErrNoEpoch] if
// the pool is not open.
func (p *Pool) Claim(ctx context.Context) error {
	if err := p.run(ctx, p.scripts.claim).Err(); err != nil {
		return fmt.Errorf("confirm the owner of the pool: %w", err)
	}
	return nil
}
