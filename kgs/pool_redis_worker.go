package kgs

import (
	"context"
	"fmt"
	"strings"

	"keypool/internal/failpoint"
)

// PoolStatus is what a pool looks like from outside.
type PoolStatus struct {
	Keys   int64  // keys that it holds
	Popped int64  // keys that were ever taken from it in this epoch
	Epoch  int64  // what it was opened for; 0 for a pool without epochs
	RunID  string // which run of its data Redis is in: see RedisPool
	Policy string // what Redis does when its memory is full; "" where there is no telling
}

// Evicts reports that the pool may lose keys that nobody took.
func (s PoolStatus) Evicts() bool {
	return s.Policy != "" && s.Policy != "noeviction" && !failpoint.Without("policy")
}

// Status reads the pool's size and tells that this holder is alive. With ErrNoEpoch
// RunID and Policy are set all the same: a new epoch is to be opened on that run.
func (p *RedisPool) Status(ctx context.Context) (PoolStatus, error) {
	reply, err := p.run(ctx, p.scripts.status, p.cfg.Holder).Slice()
	if err != nil {
		return PoolStatus{}, fmt.Errorf("status of the pool: %w", err)
	}
	run, ok := reply[0].(string)
	if !ok {
		return PoolStatus{}, fmt.Errorf("status of the pool: unexpected reply %v", reply)
	}
	s := PoolStatus{RunID: run, Policy: reply[1].(string)}
	if len(reply) == 2 {
		return s, ErrNoEpoch
	}
	s.Epoch, s.Keys, s.Popped = reply[2].(int64), reply[3].(int64), reply[4].(int64)
	return s, nil
}

// Open makes an empty pool for epoch, on the run of the data that Status told of. A
// pool that is open for it, or for a later epoch, stays as it is. ErrNoEpoch says that
// Redis is in yet another run by now. After ErrNoEpoch it must always be a new epoch of
// the ledger, also on the same run: a flush forgets what was pushed, not which run it is.
func (p *RedisPool) Open(ctx context.Context, epoch int64, runID string) error {
	if err := p.run(ctx, p.scripts.open, epoch, runID).Err(); err != nil {
		return fmt.Errorf("open the pool for epoch %d: %w", epoch, err)
	}
	return nil
}

// Push appends the codes of the numbers [from, to) of r, written one after the other,
// and gives the next number of r that the pool wants. That is to, or, when from is not
// what the pool wanted, the number to go on from, and nothing was pushed: an earlier
// push whose reply was lost did arrive, or another worker is ahead. So each number of
// a range is pushed once, whoever pushes it how often.
//
// It fails with ErrFenced when the range is of an older epoch or was delivered, and
// with ErrNoEpoch when the pool is not open for r's epoch. Redis does nothing else
// while it pushes, about 3 ms for 10,000 codes.
func (p *RedisPool) Push(ctx context.Context, r Range, from, to int64, codes []byte) (mark int64, err error) {
	if from < r.Lo || to <= from || to > r.Hi || int64(len(codes)) != (to-from)*int64(r.Length) {
		return 0, fmt.Errorf("push to the pool: %d bytes are not the codes of [%d, %d) of range %d [%d, %d)",
			len(codes), from, to, r.ID, r.Lo, r.Hi)
	}
	mark, err = p.run(ctx, p.scripts.push, r.Epoch, r.ID, r.Lo, from, to, r.Length, codes).Int64()
	if err != nil {
		return 0, fmt.Errorf("push to the pool: %w", err)
	}
	return mark, nil
}

// Forget lets the pool forget how far the ranges with ids below floor are pushed, and
// fences them: whoever still has one, having been frozen, can push no more of it. A
// floor is never lowered.
func (p *RedisPool) Forget(ctx context.Context, epoch, floor int64) error {
	if err := p.run(ctx, p.scripts.forget, epoch, floor).Err(); err != nil {
		return fmt.Errorf("fence the pool below range %d: %w", floor, err)
	}
	return nil
}

// Sweep writes off the batches of holders that are dead, and the keys that were settled
// as lost. It tells how many keys were of the dead. A batch is first moved out of its
// holder's reach, should that one only have been frozen; then the ledger gets to know;
// then Redis forgets. A crash at any point leaves the rest to the next Sweep, of any
// process, and the ledger can be told twice.
func (p *RedisPool) Sweep(ctx context.Context) (abandoned int64, err error) {
	for {
		field, codes, err := p.doomed(ctx)
		if err != nil || field == "" {
			return abandoned, err
		}
		reason, _, _ := strings.Cut(field, "/")
		if err := p.abandon(ctx, codes, reason); err != nil {
			return abandoned, fmt.Errorf("write off batch %s: %w", field, err)
		}
		dropped, err := p.run(ctx, p.scripts.drop, field).Int64()
		if err != nil {
			return abandoned, fmt.Errorf("drop batch %s: %w", field, err)
		}
		if reason == ReasonCrash {
			abandoned += dropped * int64(len(codes)) // none when another process was faster
		}
	}
}

// doomed gives some codes that are to be abandoned, or an empty field if there are none.
func (p *RedisPool) doomed(ctx context.Context) (field string, codes []string, err error) {
	reply, err := p.run(ctx, p.scripts.doom, int64(HolderTimeout.Seconds()), ReasonCrash).StringSlice()
	if err != nil {
		return "", nil, fmt.Errorf("look for dead holders: %w", err)
	}
	if len(reply) == 0 {
		return "", nil, nil
	}
	return reply[0], strings.Split(reply[1], " "), nil
}

func (p *RedisPool) abandon(ctx context.Context, codes []string, reason string) error {
	runs, err := p.cfg.Space.Runs(codes)
	if err != nil {
		return err
	}
	return p.cfg.Ledger.Abandon(ctx, runs, reason)
}
