// Package redispool is a pool of codes in a Redis list, shared by any number of servers and
// workers, and the [Filler] that brings ranges of the ledger into it.
//
// Invariants:
//
//   - every operation is one Lua script: it happens with all of its records or not at all,
//     and it may be repeated;
//   - no script has an effect on a Redis that came back from an older state, until a worker
//     has opened a new epoch on it;
//   - each number of a range is pushed once, whichever workers push it and however often.
package redispool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/kgs"
	"keypool/kgs/codespace"
)

// callTimeout bounds every call of a Pool, also where the context has no
// deadline. Taking 100,000 keys keeps Redis busy for about 40 ms.
const callTimeout = time.Second

// Ledger is the ledger as far as a pool needs it.
type Ledger interface {
	// Holders are the processes that are not known to be dead. A holder is among them
	// before it takes anything from a pool.
	Holders(ctx context.Context) ([]string, error)
	// Abandon writes off numbers for good, for one of the Reasons. It may be repeated
	// with ranges that are written off already: they are not counted twice.
	Abandon(ctx context.Context, ranges []codespace.Range, reason string) error
}

// Config is what a Pool is made of.
type Config struct {
	Name   string           // tells several pools on one Redis apart; "default" if empty
	Holder string           // this process, under a name that no other one has or had before it
	Space  *codespace.Space // turns codes that are abandoned back into numbers
	Ledger Ledger
}

// Pool is a pool of codes in a Redis list, on a single Redis, behind Sentinel, or
// in a Cluster. Each operation is one Lua script, so it happens with all of its
// bookkeeping or not at all, and each may be repeated when its reply was lost: a Take
// then gives the same batch, a Push pushes nothing, a Settle settles nothing.
//
// The guard. A Redis may come back with data of the past: restarted from an old
// snapshot, failed over to a replica that lagged behind, or flushed. Its list then
// holds keys that were handed out already. So every script first compares the run of
// the data that the pool was opened on with the run that Redis is in now, and gives
// ErrNoEpoch when they differ. There is no moment at which such a Redis hands out or
// accepts a single key: a worker must Open a new epoch first, and that empties the
// pool. The price is that each restart and each fail-over write the whole pool off,
// harmless as they may have been, and so does the first replica that is attached, or
// the last that stays away for repl-backlog-ttl. 100 million keys are 0.2 % of the
// codes of six characters.
//
// What a holder has taken stays on record until it is settled, or until the ledger has
// declared the holder dead: then Sweep writes its batches off.
//
// Redis must not evict (maxmemory-policy noeviction), and its user needs the
// permission +info besides those for the keys and for scripts.
//
// All methods may be called concurrently, and block for at most a second for each
// script or as long as ctx allows, whichever is less. An error that is none of this
// package's says that Redis cannot be reached or cannot do it now, and that the script
// may or may not have run.
type Pool struct {
	client  redis.UniversalClient
	cfg     Config
	keys    []string
	scripts scripts

	// turn is held by the one Take that is under way, so that batch ids reach Redis in
	// ascending order, but for late arrivals, which are told apart by just that.
	turn chan struct{}
	next int64 // the batch id to ask for; the last one again until its reply was read
}

var _ kgs.Supply = (*Pool)(nil)

// New makes the pool's client side; it does not call Redis. The client must
// not retry by itself for longer than callers want to wait (see OpenClient), and
// remains the caller's to close.
func New(client redis.UniversalClient, cfg Config) *Pool {
	if cfg.Name == "" {
		cfg.Name = "default"
	}
	return &Pool{
		client:  client,
		cfg:     cfg,
		keys:    keyNames(cfg.Name),
		scripts: newScripts(),
		turn:    make(chan struct{}, 1),
		next:    1,
	}
}

// Take hands up to n keys to the holder. A Take after one whose reply was lost gives
// the batch of that one, whatever its n was. It may be ErrEmpty or ErrNoEpoch.
func (p *Pool) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	defer p.unlock()
	codes, err := p.run(ctx, p.scripts.take, p.cfg.Holder, p.next, n).Text()
	if err != nil {
		return nil, fmt.Errorf("take from the pool: %w", err)
	}
	id := p.next
	p.next++
	if codes == "" {
		return nil, kgs.ErrEmpty
	}
	return &kgs.Batch{ID: id, Source: kgs.SourcePool, Codes: strings.Split(codes, " ")}, nil
}

// Settle reports what happened to the keys of b: see [kgs.Supply]. Lost codes stay on record until a Sweep
// has told the ledger, so a ledger that is away holds nobody up here.
func (p *Pool) Settle(ctx context.Context, b *kgs.Batch, unused, lost []string) error {
	err := p.run(ctx, p.scripts.settle, p.cfg.Holder, b.ID,
		strings.Join(unused, " "), strings.Join(lost, " "), kgs.ReasonLostReply, b.Codes[0]).Err()
	if err != nil && !errors.Is(err, kgs.ErrNoEpoch) { // then the whole pool is written off, this batch too
		return fmt.Errorf("settle batch %d with the pool: %w", b.ID, err)
	}
	return nil
}

// Release ends this holder, after its last Settle. A batch whose reply it never read
// goes back to the pool; one that it could not settle is written off by the next Sweep.
func (p *Pool) Release(ctx context.Context) error {
	if err := p.lock(ctx); err != nil {
		return err
	}
	defer p.unlock()
	err := p.run(ctx, p.scripts.release, p.cfg.Holder, p.next).Err()
	if err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
		return fmt.Errorf("release what is held of the pool: %w", err)
	}
	return nil
}

func (p *Pool) lock(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Pool) unlock() { <-p.turn }

// run executes one script. What the script refuses comes back as an error of this package.
func (p *Pool) run(ctx context.Context, script *redis.Script, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cmd := script.Run(ctx, p.client, p.keys, args...)
	switch err := cmd.Err(); {
	case redis.HasErrorPrefix(err, "NOEPOCH"):
		cmd.SetErr(kgs.ErrNoEpoch)
	case redis.HasErrorPrefix(err, "FENCED"):
		cmd.SetErr(kgs.ErrFenced)
	}
	return cmd
}
