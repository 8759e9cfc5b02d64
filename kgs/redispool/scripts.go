package redispool

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"keypool/kgs"
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

// scripts holds one script for each operation of a Pool. Redis runs one script at a time. Redis
// persists and replicates all changes of a script together. Each script is declared before the method that runs it.
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

// run executes one script. If the script refuses, the error is ErrForeign or an error of package
// kgs. If the script fails because a Redis key of the pool has a wrong type, run calls repair, but does
// not execute the script again.
func (p *Pool) run(ctx context.Context, script *redis.Script, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cmd := script.Run(ctx, p.client, p.keys, args...)
	switch err := cmd.Err(); {
	case redis.HasErrorPrefix(err, "NOEPOCH"):
		cmd.SetErr(kgs.ErrNoEpoch)
	case redis.HasErrorPrefix(err, "FOREIGN"):
		cmd.SetErr(ErrForeign)
	case redis.HasErrorPrefix(err, "FENCED"):
		cmd.SetErr(kgs.ErrFenced)
	case isWrongType(err):
		cmd.SetErr(errors.Join(err, p.repair(ctx)))
	}
	return cmd
}
