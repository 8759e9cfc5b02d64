package kgs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PoolStatus is what a pool looks like from outside.
type PoolStatus struct {
	Keys   int64  // keys that it holds
	Popped int64  // keys that were ever taken from it in this epoch
	Pushed int64  // keys that workers ever brought into it in this epoch
	Epoch  int64  // what it was opened for; 0 for a pool without epochs
	RunID  string // which run of its data Redis is in: see RedisPool
	Reach  Reach  // how far it has come, also in the past of Redis' data
	Policy string // what Redis does when its memory is full; "" where there is no telling
}

// Evicts reports that the pool may lose keys that nobody took.
func (s PoolStatus) Evicts() bool {
	return s.Policy != "" && s.Policy != "noeviction"
}

// Status looks at the pool. With ErrNoEpoch the run, the reach, the policy and what keys
// there are is told all the same: it is what a new epoch is to be opened on.
func (p *RedisPool) Status(ctx context.Context) (PoolStatus, error) {
	reply, err := p.run(ctx, p.scripts.status).Slice()
	if err != nil {
		return PoolStatus{}, fmt.Errorf("status of the pool: %w", err)
	}
	s, open, err := parseStatus(reply)
	if err != nil {
		return PoolStatus{}, fmt.Errorf("status of the pool: unexpected reply %v: %w", reply, err)
	}
	if !open {
		s.Popped, s.Pushed, s.Epoch = 0, 0, 0
		return s, ErrNoEpoch
	}
	return s, nil
}

// parseStatus reads the reply of scriptStatus.
func parseStatus(reply []any) (s PoolStatus, open bool, err error) {
	s.RunID, s.Keys, s.Policy = reply[0].(string), reply[2].(int64), reply[3].(string)
	s.Reach.Next = make(map[int]int64)
	for field := range slices.Chunk(reply[4].([]any), 2) {
		if err := s.set(field[0].(string), field[1].(string)); err != nil {
			return s, false, err
		}
	}
	return s, reply[1] == "open", nil
}

// set takes a field of the pool's state.
func (s *PoolStatus) set(name, value string) (err error) {
	name, of, _ := strings.Cut(name, ":")
	switch name {
	case "epoch":
		s.Epoch, err = strconv.ParseInt(value, 10, 64)
	case "popped":
		s.Popped, err = strconv.ParseInt(value, 10, 64)
	case "pushed":
		s.Pushed, err = strconv.ParseInt(value, 10, 64)
	case "range":
		s.Reach.Range, err = strconv.ParseInt(value, 10, 64)
	case "next":
		var length int
		if length, err = strconv.Atoi(of); err == nil {
			s.Reach.Next[length], err = strconv.ParseInt(value, 10, 64)
		}
	}
	return err
}
