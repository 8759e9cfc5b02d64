package redispool

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"keypool/kgs"
	"keypool/kgs/ledger"
)

// Status is what a Pool looks like from outside.
type Status struct {
	kgs.PoolStatus
	RunID     string               // names the history of Redis' data: see Pool
	HighWater ledger.HighWaterMark // the highest numbers that were ever pushed, in earlier histories too
	Policy    string               // the maxmemory-policy of Redis; "" if Redis does not report it
}

// Evicts reports that Redis may drop keys that no server took.
func (s Status) Evicts() bool {
	return s.Policy != "" && s.Policy != "noeviction"
}

// Unsafe says why the pool may lose keys that no server took; "" for a safe pool.
func (s Status) Unsafe() string {
	if !s.Evicts() {
		return ""
	}
	return "Redis may evict keys: its maxmemory-policy is " + s.Policy + " and must be noeviction"
}

// parseStatus reads the reply of scriptStatus.
func parseStatus(reply []any) (s Status, open bool, err error) {
	s.RunID, s.Keys, s.Policy = reply[0].(string), reply[2].(int64), reply[3].(string)
	s.HighWater.Next = make(map[int]int64)
	for field := range slices.Chunk(reply[4].([]any), 2) {
		if err := s.set(field[0].(string), field[1].(string)); err != nil {
			return s, false, err
		}
	}
	return s, reply[1] == "open", nil
}

// set takes a field of the pool's state.
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

// Status looks at the pool. With ErrNoEpoch the run id, the high-water mark, the policy and what keys
// there are is told all the same: it is what a new epoch is to be opened on.
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
