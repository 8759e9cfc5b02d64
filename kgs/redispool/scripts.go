package redispool

import (
	"github.com/redis/go-redis/v9"
)

// keyNames returns the names of the Redis keys of a pool, in the order of KEYS in every script. All
// names have the same hash tag, so that a Redis Cluster keeps all keys in one slot. The tag of list 0
// is the name of the pool.
//
//	state    hash, with these fields:
//	           run              the name of the history for which the pool is open
//	           epoch            the epoch for which the pool is open
//	           floor            the lowest range id that the pool accepts
//	           popped           the number of codes that servers took from the list in this epoch
//	           pushed           the number of codes that workers pushed in this epoch
//	           range            the highest range id that was ever pushed
//	           next:<length>    the highest number of this code length that was ever pushed, plus one
//	           owner            the database whose ledger fills the pool
//	           claimed          the time, in seconds, at which a worker of the owner last confirmed the owner
//	           damaged          the reason why a program considers the pool altered
//	           mark:<range id>  for a range in progress: the next number to push
//	         All fields are in one key, so that Redis loses all of them or none.
//	keys     list of codes, one per element; about 8 bytes a key
//	batches  hash: <holder>/<batch id> -> the codes of a batch, joined by spaces; a batch of an earlier epoch
//	         has <holder>/<batch id>@<epoch>
//	doomed   hash of write-offs: <reason>/<holder>/<batch id> -> codes to write off; an entry stays until
//	         the ledger has recorded its codes as abandoned
//	takes    hash: holder -> the last batch id that the holder requested; an entry needs
//	         about 60 bytes and stays for the rest of the epoch
//
// The fields range and next:<length> are the high-water mark of the pool. They survive a new epoch,
// because the ledger needs them if its database returns to an older state. The floor counts in the
// high-water mark too, because the ledger has assigned every id below the floor. But a new epoch
// begins with the floor 0. Therefore a worker passes the high-water mark to the ledger before it opens
// an epoch.
func keyNames(prefix, tag string) []string {
	prefix += ":{" + tag + "}:"
	return []string{
		prefix + "state", prefix + "keys", prefix + "batches",
		prefix + "doomed", prefix + "takes",
	}
}

// scriptHead begins every script except scriptRepair. It defines variables and a function that the
// scripts use, and reads the name of the current history; see the package comment.
//
// The name is the replication id of Redis. The run_id of the Redis process would not be sufficient,
// because it stays the same in a fail-back: a master is demoted, copies the older data of a replica
// and is promoted again. A fail-back changes the replication id. The replication id is also faster to
// read: Redis reports it in 4 us, and the run_id in 11 us.
const scriptHead = `
local state, keys, batches, writeOffs, takes = unpack(KEYS)
local run = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
	or error('this Redis does not report its replication id')
local opened, epoch, floor, owner, claimed, damaged = unpack(redis.call('HMGET', state, 'run', 'epoch', 'floor', 'owner', 'claimed', 'damaged'))
-- The variable caller names the database of the caller. isForeign is true if another database owns the pool. isLeft is
-- true if another database owns the pool and no worker of that database has confirmed this for a minute. The database of
-- the caller may then take the pool over.
local isForeign = owner and owner ~= '' and caller ~= '' and owner ~= caller
local isLeft = isForeign and tonumber(redis.call('TIME')[1]) - (tonumber(claimed) or 0) >= 60

-- giveBack pushes the codes in blob to the end of the list. The loop pushes slices, because the Lua stack limits unpack
-- to 8,000 values.
local function giveBack(blob)
	local codes = {}
	for code in string.gmatch(blob, '[^ ]+') do codes[#codes + 1] = code end
	for i = 1, #codes, 5000 do
		redis.call('RPUSH', keys, unpack(codes, i, math.min(i + 4999, #codes)))
	end
end
`

// scriptGuard ends a script before the script changes anything, in three cases: the pool was not opened
// in the current history, the pool belongs to another database, or the pool was altered. The comment of
// Pool describes the guard and its cost.
const scriptGuard = scriptHead + `
if not opened then return redis.error_reply('NOEPOCH there is no pool') end
if opened ~= run then return redis.error_reply('NOEPOCH the pool lost its state') end
if isForeign then return redis.error_reply('FOREIGN the pool belongs to another database') end
if damaged then return redis.error_reply('NOEPOCH the pool was altered') end
`

// scriptWorker also ends a script if the epoch of the calling worker is not the epoch of the pool.
const scriptWorker = scriptGuard + `
local mine = tonumber(ARGV[1])
if mine < tonumber(epoch) then return redis.error_reply('FENCED a newer epoch was opened') end
if mine > tonumber(epoch) then return redis.error_reply('NOEPOCH the pool is of an older epoch') end
`

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

// scriptRecord records a batch of an earlier epoch; see heldBatches. Arguments: epoch of the pool, holder, name of the
// record, codes. The script may be repeated. It refuses if the pool has begun another epoch.
const scriptRecord = scriptWorker + `
local holder, name, codes = unpack(ARGV, 2)
redis.call('HSET', batches, holder .. '/' .. name, codes)
return 1
`

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

// scriptHolders returns the epoch, and then <holder>/<batch id> for every batch on record.
const scriptHolders = scriptGuard + `
local reply = redis.call('HKEYS', batches)
table.insert(reply, 1, epoch)
return reply
`

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

// scriptListWriteOffs returns the fields of all write-offs.
const scriptListWriteOffs = scriptGuard + `
return redis.call('HKEYS', writeOffs)
`

// scriptReadWriteOff returns the codes of a write-off, or nil if the write-off was deleted. Argument: the field.
const scriptReadWriteOff = scriptGuard + `
return redis.call('HGET', writeOffs, ARGV[1])
`

// scriptDropWriteOff deletes a write-off. Argument: the field. The script returns 1 if this call
// deleted the entry, and 0 otherwise.
const scriptDropWriteOff = scriptGuard + `
return redis.call('HDEL', writeOffs, ARGV[1])
`

// scriptPush appends codes to the list. Arguments: epoch, range id, lo, from, to, length, all
// codes as one text. The argument lo is the first number of the range. The codes are those of the
// numbers [from, to).
//
// If the argument `from` differs from the mark, the script pushes nothing and returns the mark. It compares `from` and
// the mark as strings, because a number may exceed 2^53 and Lua cannot compare such numbers exactly.
//
// The script pushes the codes and sets the mark together. Redis does both or neither, even if the
// worker crashes.
//
// struct.unpack splits the text in C, 200 codes at a time; see BenchmarkRedisPush. The numbers in
// next:<length> have leading zeros, so that they can be compared as strings.
const scriptPush = scriptWorker + `
local id, lo, from, to, length, text = unpack(ARGV, 2)
if tonumber(id) < tonumber(floor) then return redis.error_reply('FENCED the range is delivered') end
local mark = redis.call('HGET', state, 'mark:' .. id) or lo
if mark ~= from then return mark end
for i = 1, #text, 200 * length do
	local n = math.min(200, (#text - i + 1) / length)
	local codes = {struct.unpack(string.rep('c' .. length, n), text, i)}
	redis.call('RPUSH', keys, unpack(codes, 1, n)) -- the value after n is a position, not a code
end
redis.call('HSET', state, 'mark:' .. id, to)
redis.call('HINCRBY', state, 'pushed', #text / length)
local next, reached = 'next:' .. length, string.rep('0', 19 - #to) .. to
if reached > (redis.call('HGET', state, next) or '') then redis.call('HSET', state, next, reached) end
if tonumber(id) > tonumber(redis.call('HGET', state, 'range') or 0) then redis.call('HSET', state, 'range', id) end
return to
`

// scriptForget raises the floor and deletes the marks below it. Arguments: epoch, floor.
const scriptForget = scriptWorker + `
local raised = tonumber(ARGV[2])
if raised <= tonumber(floor) then return 0 end
redis.call('HSET', state, 'floor', ARGV[2])
for _, field in ipairs(redis.call('HKEYS', state)) do
	local id = tonumber(string.match(field, '^mark:(%d+)$'))
	if id and id < raised then redis.call('HDEL', state, field) end
end
return 1
`

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

// scriptClaim confirms that the database of the calling worker owns the pool. A pool that an older release opened has no
// owner. The script then makes this database the owner. HDEL changes nothing, but makes Redis accept the script at its
// maxmemory limit; see scriptTake. Without HDEL, a live owner could not confirm the pool at this limit, and a copy of
// the database could take the pool over.
const scriptClaim = scriptGuard + `
redis.call('HDEL', state, 'none')
redis.call('HSET', state, 'owner', caller, 'claimed', redis.call('TIME')[1])
return 1
`

// scriptDamage records that the pool was altered. From then on the other scripts refuse the pool, until a worker begins
// a new epoch. Argument: the reason. As in scriptTake, HDEL makes Redis accept the script at its memory limit.
const scriptDamage = scriptGuard + `
redis.call('HDEL', state, 'none')
redis.call('HSET', state, 'damaged', ARGV[1])
return 1
`

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

// scriptStatus returns the name of the history, whether the pool is open or belongs to another database
// (see statusReply), the length of the list, the maxmemory-policy, and all fields of state.
//
// The script reads the policy itself, which takes Redis 16 us more. In a Cluster, a separate
// command could reach a node that does not have the pool.
const scriptStatus = scriptHead + `
local isOpen = opened and 'open' or ''
if opened ~= run then isOpen = '' end
if isForeign then isOpen = isLeft and '' or 'foreign' end
local policy = string.match(redis.call('INFO', 'memory'), 'maxmemory_policy:([%w-]+)') or ''
return {run, isOpen, redis.call('LLEN', keys), policy, redis.call('HGETALL', state)}
`

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

// scripts holds one script for each operation of a Pool. Redis runs one script at a time. Redis
// persists and replicates all changes of a script together.
type scripts struct {
	take, settle, record, release, holders, withdraw, listWriteOffs, readWriteOff, dropWriteOff, push, forget, checkWrites, open, claim, damage, repair, status, read *redis.Script
}

// newScripts returns the scripts of a process that uses the given database. The name of the database is part of the
// text, because every script compares it with the owner of the pool.
func newScripts(database string) scripts {
	script := func(text string) *redis.Script {
		return redis.NewScript("local caller = '" + database + "'\n" + text)
	}
	return scripts{
		take:          script(scriptTake),
		settle:        script(scriptSettle),
		record:        script(scriptRecord),
		release:       script(scriptRelease),
		holders:       script(scriptHolders),
		withdraw:      script(scriptWithdraw),
		listWriteOffs: script(scriptListWriteOffs),
		readWriteOff:  script(scriptReadWriteOff),
		dropWriteOff:  script(scriptDropWriteOff),
		push:          script(scriptPush),
		forget:        script(scriptForget),
		checkWrites:   script(scriptCheckWrites),
		open:          script(scriptOpen),
		claim:         script(scriptClaim),
		damage:        script(scriptDamage),
		repair:        script(scriptRepair),
		status:        script(scriptStatus),
		read:          script(scriptRead),
	}
}
