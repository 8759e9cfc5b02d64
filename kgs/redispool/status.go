package redispool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"keypool/kgs"
	"keypool/kgs/ledger"
)

// Status is the state of a Pool.
type Status struct {
	kgs.PoolStatus
	RunID     string               // names the current history of the data; see Pool
	HighWater ledger.HighWaterMark // the highest numbers that were ever pushed, in all epochs
	Policy    string               // the maxmemory-policy of Redis; "" if Redis does not report it
}

// Evicts reports whether Redis may evict keys that no server took.
func (s Status) Evicts() bool {
	return s.Policy != "" && s.Policy != "noeviction"
}

// Unsafe returns why the pool may lose keys that no server took. It returns "" for a safe pool.
func (s Status) Unsafe() string {
	if !s.Evicts() {
		return ""
	}
	return "Redis may evict keys: its maxmemory-policy is " + s.Policy + " and must be noeviction"
}

// errReplyForm means that the reply of a script has another length, or values of other types, than
// the script returns.
var errReplyForm = errors.New("the reply does not have the form of the script")

// parseStatus parses the reply of scriptStatus.
func parseStatus(reply []any) (s Status, open bool, err error) {
	if len(reply) != 5 {
		return s, false, errReplyForm
	}
	runID, isRunID := reply[0].(string)
	keys, isKeys := reply[2].(int64)
	policy, isPolicy := reply[3].(string)
	fields, isFields := reply[4].([]any)
	if !isRunID || !isKeys || !isPolicy || !isFields || len(fields)%2 != 0 {
		return s, false, errReplyForm
	}
	s.RunID, s.Keys, s.Policy = runID, keys, policy
	s.HighWater.Next = make(map[int]int64)
	for field := range slices.Chunk(fields, 2) {
		name, isName := field[0].(string)
		value, isValue := field[1].(string)
		if !isName || !isValue {
			return s, false, errReplyForm
		}
		if err := s.set(name, value); err != nil {
			return s, false, err
		}
	}
	return s, reply[1] == "open", nil
}

// set parses one field of the hash state. It ignores fields that Status does not contain.
func (s *Status) set(name, value string) (err error) {
	name, of, _ := strings.Cut(name, ":")
	switch name {
	case "epoch":
		s.Epoch, err = strconv.ParseInt(value, 10, 64)
	case "popped":
		s.Taken, err = strconv.ParseInt(value, 10, 64)
	case "pushed":
		s.Pushed, err = strconv.ParseInt(value, 10, 64)
	case "range":
		s.HighWater.ID, err = strconv.ParseInt(value, 10, 64)
	case "next":
		var length int
		if length, err = strconv.Atoi(of); err == nil {
			s.HighWater.Next[length], err = strconv.ParseInt(value, 10, 64)
		}
	}
	return err
}

// Status returns the state of the pool. If the error is [kgs.ErrNoEpoch], Keys, RunID, HighWater
// and Policy are valid, because a worker needs them to open a new epoch.
func (p *Pool) Status(ctx context.Context) (Status, error) {
	reply, err := p.run(ctx, p.scripts.status).Slice()
	if err != nil {
		return Status{}, fmt.Errorf("status of the pool: %w", err)
	}
	s, open, err := parseStatus(reply)
	if err != nil {
		return Status{}, fmt.Errorf("status of the pool: unexpected reply %v: %w", reply, err)
	}
	if !open {
		s.Taken, s.Pushed, s.Epoch = 0, 0, 0
		return s, kgs.ErrNoEpoch
	}
	return s, nil
}
