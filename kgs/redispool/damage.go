package redispool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"keypool/kgs"
)

// withoutInvalid returns codes without the strings that cannot be codes. Such strings show that another client of Redis
// has altered the pool. If there are such strings, withoutInvalid raises the alarm and marks the pool as damaged, so
// that a worker begins a new epoch.
func (p *Pool) withoutInvalid(ctx context.Context, codes []string) ([]string, error) {
	invalid := func(code string) bool { return !p.cfg.Space.IsCode(code) }
	first := slices.IndexFunc(codes, invalid)
	if first < 0 {
		return codes, nil
	}
	if err := p.damage(ctx, fmt.Sprintf("%.40q is not a code", codes[first])); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(codes), invalid), nil
}

// withoutRepeated returns codes without repetitions. Like a string that is not a code, a repetition shows that another
// client of Redis has altered the pool. Take does not call withoutRepeated, because sorting the codes of each batch
// takes time, and a server that uses a code twice only causes a conflict.
func (p *Pool) withoutRepeated(ctx context.Context, codes []string) ([]string, error) {
	sorted := slices.Sorted(slices.Values(codes))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return slices.Compact(sorted), p.damage(ctx, sorted[i]+" occurs twice")
		}
	}
	return codes, nil
}

// scriptDamage records that the pool was altered. From then on the other scripts refuse the pool, until a worker begins
// a new epoch. Argument: the reason. As in scriptTake, HDEL makes Redis accept the script at its memory limit.
const scriptDamage = scriptGuard + `
redis.call('HDEL', state, 'none')
redis.call('HSET', state, 'damaged', ARGV[1])
return 1
`

// damage raises the alarm and marks the pool as damaged, so that a worker begins a new epoch.
func (p *Pool) damage(ctx context.Context, reason string) error {
	p.cfg.Alarm.raise("the pool in Redis was altered: " + reason)
	err := p.run(ctx, p.scripts.damage, reason).Err()
	if err != nil && !errors.Is(err, kgs.ErrNoEpoch) { // after ErrNoEpoch, a worker opens a new epoch anyway
		return fmt.Errorf("mark the pool as damaged: %w", err)
	}
	return nil
}

// isWrongType reports whether a script failed because a Redis key of the pool has another type than Keypool gives it.
func isWrongType(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.Contains(reply.Error(), "WRONGTYPE")
}

// scriptRepair deletes each Redis key of the pool that has another type than Keypool gives it, and returns the names of
// the deleted Redis keys. If it deletes one and the pool still has the hash state, it records in state that the pool was
// altered. If another database owns the pool, and a worker of that database has confirmed this within the last minute, the
// script changes nothing.
const scriptRepair = `
local state, keys, batches, writeOffs, takes = unpack(KEYS)
local owner = redis.pcall('HGET', state, 'owner')
if type(owner) == 'string' and owner ~= '' and caller ~= '' and owner ~= caller
	and tonumber(redis.call('TIME')[1]) - (tonumber(redis.call('HGET', state, 'claimed')) or 0) < 60 then return '' end
local deleted = {}
local function check(key, reply)
	if type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) then
		redis.call('UNLINK', key)
		deleted[#deleted + 1] = key
	end
end
check(state, owner)
check(keys, redis.pcall('LLEN', keys))
for _, hash in ipairs({batches, writeOffs, takes}) do check(hash, redis.pcall('HGET', hash, 'none')) end
local names = table.concat(deleted, ' ')
if names ~= '' and redis.call('HGET', state, 'run') then redis.call('HSET', state, 'damaged', 'the type of ' .. names) end
return names
`

// repair deletes the Redis keys of the pool that have a wrong type, because no script works with them. If it deletes one,
// it raises the alarm, and a worker begins a new epoch.
func (p *Pool) repair(ctx context.Context) error {
	deleted, err := p.scripts.repair.Run(ctx, p.client, p.keys).Text()
	if err != nil {
		return fmt.Errorf("repair the pool: %w", err)
	}
	if deleted != "" {
		p.cfg.Alarm.raise("the pool in Redis was altered: the type of " + deleted)
	}
	return nil
}
