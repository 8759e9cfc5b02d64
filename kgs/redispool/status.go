package redispool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// Status is the state of a Pool.
type Status struct {
	kgs.PoolStatus
	RunID     string               // name of the current history of Redis, which changes when Redis may have lost data; see Pool
	HighWater ledger.HighWaterMark // the highest numbers that were ever pushed, in all epochs, and the highest id that the pool knows
	Floor     int64                // the lowest range id that the pool accepts
	Policy    string               // the maxmemory-policy of Redis; "" if Redis does not report it
	Cause     string               // why the pool needs an operator, as [Config].Alarm reports it; "" if it needs none
}

// Evicts reports whether Redis may evict keys when its memory is full. An evicted key is lost.
func (s Status) Evicts() bool {
	return s.Policy != "" && s.Policy != "noeviction"
}

// Unsafe returns why the pool may lose keys or needs an operator. It returns "" for a safe pool.
func (s Status) Unsafe() string {
	if !s.Evicts() {
		return s.Cause
	}
	return "Redis may evict keys: its maxmemory-policy is " + s.Policy + " and must be noeviction"
}

// errReplyForm means that the length of a reply, or the type of a value in it, is unexpected.
var errReplyForm = errors.New("the reply does not have the form that the script returns")

// statusReply is a reply of scriptStatus.
type statusReply struct {
	Status
	state  string // "open", "foreign" if another database owns the pool, or "" if the pool is not open
	owner  string // the database that owns the pool
	damage string // says how the pool was altered; "" if the reply shows no alteration
}

// parseStatus parses a reply of scriptStatus.
func parseStatus(reply []any) (s statusReply, err error) {
	if len(reply) != 5 {
		return s, errReplyForm
	}
	runID, isRunID := reply[0].(string)
	state, isState := reply[1].(string)
	keys, isKeys := reply[2].(int64)
	policy, isPolicy := reply[3].(string)
	fields, isFields := reply[4].([]any)
	if !isRunID || !isState || !isKeys || !isPolicy || !isFields || len(fields)%2 != 0 {
		return s, errReplyForm
	}
	s.RunID, s.state, s.Keys, s.Policy = runID, state, keys, policy
	s.HighWater.Next, s.Floor = make(map[int]int64), -1
	for field := range slices.Chunk(fields, 2) {
		name, isName := field[0].(string)
		value, isValue := field[1].(string)
		if !isName || !isValue {
			return s, errReplyForm
		}
		s.set(name, value)
	}
	s.checkFields()
	if s.Floor = max(s.Floor, 0); s.Floor <= maxTakenOver { // the ledger has assigned every id below the floor
		s.HighWater.ID = max(s.HighWater.ID, s.Floor-1)
	}
	return s, nil
}

// checkFields sets s.damage if the pool is open and lacks a field.
func (s *statusReply) checkFields() {
	switch {
	case s.state != "open" || s.damage != "":
	case s.Floor < 0:
		s.damage = "the pool in Redis has no field floor"
	case s.Epoch == 0:
		s.damage = "the field epoch of the pool in Redis is missing or 0"
	}
}

// set parses one field of the Redis hash state (see keyNames). It ignores the fields that statusReply does not use.
func (s *statusReply) set(name, value string) {
	kind, of, _ := strings.Cut(name, ":")
	switch kind {
	case "epoch":
		s.Epoch = s.number(name, value, maxCount)
	case "popped":
		s.Taken = s.number(name, value, maxCount)
	case "pushed":
		s.Pushed = s.number(name, value, maxCount)
	case "range":
		s.HighWater.ID = s.number(name, value, maxCount)
	case "floor":
		s.Floor = s.number(name, value, maxCount)
	case "mark": // checked only for its form; Push compares the mark with its range
		s.number(name, value, codespace.Size(codespace.MaxLength))
	case "next":
		length, err := strconv.Atoi(of)
		if err != nil || length < codespace.MinLength || length > codespace.MaxLength {
			s.damage = fmt.Sprintf("the pool in Redis has a field %.40q", name)
			return
		}
		if next := s.number(name, value, codespace.Size(length)); next > 0 {
			s.HighWater.Next[length] = next
		}
	case "owner":
		s.owner = value
	case "damaged":
		s.damage = value
	}
}

const (
	// maxCount is greater than every epoch, range id and number of keys that Keypool writes. Lua represents maxCount
	// exactly.
	maxCount = 1 << 51
	// maxTakenOver is a limit for the epoch and the range id of a pool. A ledger that is behind the pool continues from
	// these values, but only if they are at most maxTakenOver. So the later epochs and range ids of the ledger stay
	// below maxCount.
	maxTakenOver = ledger.MaxSeenID
)

// number returns the number in a field. If the value is not a number from 0 to most, number returns 0 and sets s.damage.
func (s *statusReply) number(name, value string, most int64) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > most {
		s.damage = fmt.Sprintf("the field %.40s of the pool in Redis has the value %.40q, want a number of at most %d", name, value, most)
		return 0
	}
	return n
}

// ErrForeign means that another database owns the pool. It wraps [kgs.ErrNoEpoch], because callers treat both errors in
// the same way: they get no keys from the pool.
var ErrForeign error = foreignError{}

type foreignError struct{}

func (foreignError) Error() string {
	return "the pool in Redis belongs to the ledger of another database"
}

// Unwrap returns kgs.ErrNoEpoch. Error does not contain the text of ErrNoEpoch, because this pool has not lost its state.
func (foreignError) Unwrap() error { return kgs.ErrNoEpoch }

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

// Status returns the state of the pool. If another database owns the pool, and a worker of that database has confirmed
// this within the last minute (see Claim), the error is [ErrForeign], and only Cause and HighWater are valid. If the
// error is [kgs.ErrNoEpoch] itself, only Cause, Keys, RunID, HighWater and Policy are valid. A worker needs RunID and
// HighWater to open a new epoch. If the pool has a value that Keypool never writes, Status raises the alarm and returns
// [kgs.ErrNoEpoch], so that a worker begins a new epoch.
func (p *Pool) Status(ctx context.Context) (Status, error) {
	reply, err := p.run(ctx, p.scripts.status).Slice()
	if err != nil {
		return Status{}, fmt.Errorf("status of the pool: %w", err)
	}
	s, err := parseStatus(reply)
	if err != nil {
		return Status{}, fmt.Errorf("status of the pool: unexpected reply %v: %w", reply, err)
	}
	if s.state == "foreign" {
		p.cfg.Alarm.raiseForeign(fmt.Sprintf("the pool in Redis belongs to the ledger of another database (%.40s), this is %s: "+
			"if both databases are in use, one is a copy: give the copy another Redis database; if this database replaces the other, stop the programs of the other database and wait two minutes",
			s.owner, p.cfg.Database))
		return Status{HighWater: s.HighWater, Cause: p.cfg.Alarm.cause()}, ErrForeign
	}
	if s.damage != "" {
		p.cfg.Alarm.raise("the pool in Redis was altered: " + s.damage)
	}
	s.Cause = p.cfg.Alarm.cause()
	if s.state != "open" || s.damage != "" {
		s.Taken, s.Pushed, s.Epoch = 0, 0, 0
		return s.Status, kgs.ErrNoEpoch
	}
	return s.Status, nil
}
