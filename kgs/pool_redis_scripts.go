package kgs

import "github.com/redis/go-redis/v9"

// What a RedisPool keeps in Redis, in the order of KEYS of every script. All names
// share one hash tag, so that in a Redis Cluster they share one slot.
//
//	state    hash: run and epoch of the pool, the floor below which ranges are fenced,
//	         popped (how many codes were ever taken off the head of the list), pushed (how
//	         many a worker ever brought), range and next:<length> (how far the pool has
//	         come, through all its epochs, should the ledger forget), and one
//	         mark:<range id> a range under way: the next number of it to be pushed.
//	         It is one key so that it is lost as a whole or not at all.
//	keys     list of codes, one an element: about 8 bytes a key
//	batches  hash: <holder>/<batch id> -> the codes of a batch, joined by spaces
//	doomed   hash: <reason>/<holder>/<batch id> -> codes to be abandoned, until the ledger knows
//	takes    hash: holder -> the last batch id that it asked for; it stays for the rest of
//	         the epoch, about 60 bytes
func redisKeys(name string) []string {
	prefix := "keypool:{" + name + "}:"
	return []string{
		prefix + "state", prefix + "keys", prefix + "batches",
		prefix + "doomed", prefix + "takes",
	}
}

// scriptHead begins every script: names, and which run of the data this is.
//
// The run is the replication id, not the run_id of the process. Redis draws a new
// one whenever it starts, and whenever a replica becomes a master, so it names one
// unbroken history of the data. The run_id would be fooled by a fail-back: a master
// that was demoted, took over the older data of the replica, and was promoted again
// is still the same process. (It also costs 11 us to read, this one 4 us.)
const scriptHead = `
local state, keys, batches, doomed, takes = unpack(KEYS)
local run = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
	or error('this Redis does not report its replication id')
local opened, epoch, floor = unpack(redis.call('HMGET', state, 'run', 'epoch', 'floor'))

-- In slices, for unpack is bounded by the Lua stack (8,000 values).
local function giveBack(blob)
	local codes = {}
	for code in string.gmatch(blob, '%S+') do codes[#codes + 1] = code end
	for i = 1, #codes, 5000 do
		redis.call('RPUSH', keys, unpack(codes, i, math.min(i + 4999, #codes)))
	end
end
`

// scriptGuard ends a script before it has any effect when the pool was not opened on
// this run of the data. See RedisPool for what that buys and costs.
const scriptGuard = scriptHead + `
if not opened then return redis.error_reply('NOEPOCH there is no pool') end
if opened ~= run then return redis.error_reply('NOEPOCH the pool lost its state') end
`

// scriptShip further ends it unless the caller, a worker, is of this epoch.
const scriptShip = scriptGuard + `
local mine = tonumber(ARGV[1])
if mine < tonumber(epoch) then return redis.error_reply('FENCED a newer epoch was opened') end
if mine > tonumber(epoch) then return redis.error_reply('NOEPOCH the pool is of an older epoch') end
`

// scriptTake: holder, batch id, n. A batch id that was used before gives the batch on
// record, or none when it is settled: that is a first attempt that arrives after its
// repetition, and nobody is there to read the reply.
//
// A crash of the holder after it leaves the batch on record, for Sweep to write off.
//
// A Redis at its maxmemory refuses a script whose first write may grow the data, but
// no write after one that may not: so LPOP comes first.
const scriptTake = scriptGuard + `
local holder, id = ARGV[1], ARGV[2]
local field = holder .. '/' .. id
local last = tonumber(redis.call('HGET', takes, holder) or 0)
if tonumber(id) <= last then return redis.call('HGET', batches, field) or '' end
local codes = redis.call('LPOP', keys, ARGV[3])
redis.call('HSET', takes, holder, id)
if not codes then return '' end
local blob = table.concat(codes, ' ')
redis.call('HSET', batches, field, blob)
redis.call('HINCRBY', state, 'popped', #codes)
return blob
`

// scriptSettle: holder, batch id, unused codes, lost codes, reason for the lost ones, the
// first code of the batch. Without a record somebody else has the say over the codes by now,
// or had it already. A record of other codes is of a take that came late, into an epoch
// that knows nothing of the ids from before. A
// crash of the holder before it leaves the whole batch to Sweep, after it nothing.
const scriptSettle = scriptGuard + `
local field, lost = ARGV[1] .. '/' .. ARGV[2], ARGV[4]
local codes, first = redis.call('HGET', batches, field), ARGV[6]
if not codes then return 0 end
if string.sub(codes, 1, #first) ~= first then return 0 end
redis.call('HDEL', batches, field)
giveBack(ARGV[3])
if lost ~= '' then redis.call('HSET', doomed, ARGV[5] .. '/' .. field, lost) end
return 1
`

// scriptRelease: holder, the batch id that it would ask for next. A batch on record
// under that id was never read by anyone. What the holder asked for last stays known: a
// take that it gave up may still arrive, and would go over what is on record.
const scriptRelease = scriptGuard + `
local field = ARGV[1] .. '/' .. ARGV[2]
local unread = redis.call('HGET', batches, field)
redis.call('HDEL', batches, field)
if unread then giveBack(unread) end
return 1
`

// scriptHolders gives whoever has batches on record, with the batch id behind a slash.
const scriptHolders = scriptGuard + `
return redis.call('HKEYS', batches)
`

// scriptDoom: reason, holders that are dead. It moves their batches out of their reach.
// What they asked for last stays known: should one of them only have been frozen, a take
// of then may still arrive.
const scriptDoom = scriptGuard + `
local dead = {}
for i = 2, #ARGV do dead[ARGV[i]] = true end
for _, field in ipairs(redis.call('HKEYS', batches)) do
	if dead[string.match(field, '^(.*)/')] then
		local codes = redis.call('HGET', batches, field)
		redis.call('HDEL', batches, field)
		redis.call('HSET', doomed, ARGV[1] .. '/' .. field, codes)
	end
end
return 1
`

// scriptDoomed gives one entry of all that is doomed: field and codes.
const scriptDoomed = scriptGuard + `
local field = redis.call('HKEYS', doomed)[1]
if not field then return {} end
return {field, redis.call('HGET', doomed, field)}
`

// scriptDrop: field of a doomed entry. It tells whether this call dropped it.
const scriptDrop = scriptGuard + `
return redis.call('HDEL', doomed, ARGV[1])
`

// scriptPush: epoch, range id, lo, from, to, length, codes as one text. Numbers may
// exceed 2^53, which Lua cannot compare, so marks stay strings and are only tested for
// equality: whatever is not the very next number to be pushed is not pushed. The mark is
// set together with the push: a crash of the worker right after leaves both.
// struct.unpack cuts the text in C, 200 codes at a time; see BenchmarkRedisPush. How far
// the pool has come is kept with leading zeros, for texts to compare like numbers.
const scriptPush = scriptShip + `
local id, lo, from, to, length, text = unpack(ARGV, 2)
if tonumber(id) < tonumber(floor) then return redis.error_reply('FENCED the range is delivered') end
local mark = redis.call('HGET', state, 'mark:' .. id) or lo
if mark ~= from then return mark end
for i = 1, #text, 200 * length do
	local n = math.min(200, (#text - i + 1) / length)
	local codes = {struct.unpack(string.rep('c' .. length, n), text, i)}
	redis.call('RPUSH', keys, unpack(codes, 1, n)) -- without the last: where to go on
end
redis.call('HSET', state, 'mark:' .. id, to)
redis.call('HINCRBY', state, 'pushed', #text / length)
local next, reached = 'next:' .. length, string.rep('0', 19 - #to) .. to
if reached > (redis.call('HGET', state, next) or '') then redis.call('HSET', state, next, reached) end
if tonumber(id) > tonumber(redis.call('HGET', state, 'range') or 0) then redis.call('HSET', state, 'range', id) end
return to
`

// scriptForget: epoch, floor.
const scriptForget = scriptShip + `
local raised = tonumber(ARGV[2])
if raised <= tonumber(floor) then return 0 end
redis.call('HSET', state, 'floor', ARGV[2])
for _, field in ipairs(redis.call('HKEYS', state)) do
	local id = tonumber(string.match(field, '^mark:(%d+)$'))
	if id and id < raised then redis.call('HDEL', state, field) end
end
return 1
`

// scriptOpen: epoch, run. Another run than the caller saw is for the caller to look at
// again: the ledger knows this epoch as that of the run it names. How far the pool has
// come is all that stays.
const scriptOpen = scriptHead + `
if run ~= ARGV[2] then return redis.error_reply('NOEPOCH Redis has changed again') end
if opened == run and tonumber(epoch) >= tonumber(ARGV[1]) then return 0 end
local reached = {'range', redis.call('HGET', state, 'range') or 0}
for _, field in ipairs(redis.call('HKEYS', state)) do
	if string.match(field, '^next:') then
		reached[#reached + 1] = field
		reached[#reached + 1] = redis.call('HGET', state, field)
	end
end
redis.call('UNLINK', unpack(KEYS))
redis.call('HSET', state, 'run', run, 'epoch', ARGV[1], 'floor', 0, 'popped', 0, 'pushed', 0, unpack(reached))
return 1
`

// scriptStatus gives the run, whether the pool is open, the length of the list, what Redis
// does when its memory is full, and all of the state, field by field.
// The policy is read here rather than by a command of its own, for here it is that of the
// node which has the pool. It takes Redis 16 us more.
const scriptStatus = scriptHead + `
local isOpen = opened and 'open' or ''
if opened ~= run then isOpen = '' end
local policy = string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:([%w-]+)') or ''
return {run, isOpen, redis.call('LLEN', keys), policy, redis.call('HGETALL', state)}
`

// scriptRead: epoch, position (both empty at first), n. Positions count from the first code ever
// pushed in this epoch, so that takes in between do not shift them. The call that
// reaches the end also gives all batches: at that one moment every code of the pool
// was read before, is in this reply, or has left the pool.
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
	for _, batch in ipairs(redis.call('HVALS', doomed)) do reply[#reply + 1] = batch end
end
return reply
`

// redisScripts are the operations of a RedisPool, one script each: a script runs
// alone and is persisted and replicated as a whole, and with it its bookkeeping.
type redisScripts struct {
	take, settle, release, holders, doom, doomed, drop, push, forget, open, status, read *redis.Script
}

func newRedisScripts() redisScripts {
	return redisScripts{
		take:    redis.NewScript(scriptTake),
		settle:  redis.NewScript(scriptSettle),
		release: redis.NewScript(scriptRelease),
		holders: redis.NewScript(scriptHolders),
		doom:    redis.NewScript(scriptDoom),
		doomed:  redis.NewScript(scriptDoomed),
		drop:    redis.NewScript(scriptDrop),
		push:    redis.NewScript(scriptPush),
		forget:  redis.NewScript(scriptForget),
		open:    redis.NewScript(scriptOpen),
		status:  redis.NewScript(scriptStatus),
		read:    redis.NewScript(scriptRead),
	}
}
