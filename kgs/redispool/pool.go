// Package redispool is a pool of codes in Redis. A [Pool] is one list of codes; a pool of type
// [Lists] consists of one list or more. Any number of servers and workers share the pool. A
// [Filler] reserves ranges of numbers in the ledger and pushes their codes to the pool. Package kgs
// defines batches, holders, epochs and settling.
//
// Vocabulary:
//
//   - a history is one unbroken sequence of changes to the data of a Redis. The name of a history is
//     the replication id. Redis gets a new replication id when it starts, and when a replica becomes
//     a master;
//   - the mark of a range is the next number of the range that the pool expects. The pool accepts
//     only a push that begins at the mark;
//   - to fence a range is to refuse every push of its codes. The floor is a range id: all ranges
//     with lower ids are fenced;
//   - a write-off is a text in Redis with the codes of a dead holder's batch, or with the lost codes of a
//     settled batch. It stays in Redis until the ledger has recorded these codes as abandoned.
//
// Invariants:
//
//   - only Lua scripts change the pool. The changes of one script happen together or not at all, and
//     the caller may run the script again;
//   - on a Redis that returned to an older state, only two scripts change the pool: the script that
//     opens a new epoch, and the script that deletes Redis keys of a wrong type;
//   - each number of a range is pushed once, even if several workers push the range.
package redispool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// callTimeout is the time limit of every call of a Pool, even if the context has no deadline. A Take
// of 100,000 keys keeps Redis busy for about 40 ms.
const callTimeout = time.Second

// Ledger is the part of the ledger that a Pool needs.
type Ledger interface {
	// Holders returns all holders in the ledger, except holders that are known to be dead. The
	// ledger records a holder before the holder takes keys from a pool.
	Holders(ctx context.Context) ([]string, error)
	// Abandon abandons ranges permanently. The reason is one of the Reason constants of
	// package kgs. The caller may repeat Abandon, because a range that is already abandoned does not
	// count again. [ledger.ErrShipping] means that Abandon changed nothing, and that a later call can
	// succeed.
	Abandon(ctx context.Context, ranges []codespace.Range, reason string) error
}

// DefaultPrefix begins the names of all Redis keys if [Config].Prefix is empty.
const DefaultPrefix = "keypool"

// Config configures a Pool.
type Config struct {
	Prefix string           // begins the names of all Redis keys; DefaultPrefix if empty
	Name   string           // distinguishes the pools with this prefix; "default" if empty
	List   int              // number of the list, below MaxLists; see Lists
	Holder string           // name of this process; no other process may ever use it
	Space  *codespace.Space // turns abandoned codes back into numbers
	Ledger Ledger
	// Database names the database of the ledger, in digits and slashes. The scripts refuse a pool that is owned by
	// another database. If Database is empty, the scripts do not check the owner.
	Database string
	Alarm    *Alarm       // raised when the pool needs an operator; if nil, the pool makes its own alarm
	Metrics  *kgs.Metrics // counts the keys of earlier epochs that the holder returns unused; may be nil
}

// Pool is a list of codes in Redis. It works on a single Redis, behind Sentinel, and in a Cluster.
// Each operation may be repeated when its reply was lost: Take then returns the same batch again,
// Push pushes nothing, and Settle changes nothing.
//
// A guard protects the pool against a Redis that lost data. A Redis may restart from an old snapshot, fail over to a
// replica that lagged behind, or be flushed. The list may then hold keys that were already handed out. Therefore Open
// stores the name of the current history in the pool. When a script runs later, Redis may have another history. So every
// script, except those that open or repair the pool, first compares the stored name with the name of the present history.
// If the names differ, the script changes nothing and the method returns [kgs.ErrNoEpoch]. A worker then calls Open for a
// new epoch, which empties the pool.
//
// The guard has a cost: a new history abandons the whole pool, even if no data was lost. Redis
// begins a new history at every restart and every failover. Redis also begins a new history when
// the first replica is attached, and when the last replica stays disconnected for repl-backlog-ttl.
// The cost is small, because a pool of 100 million keys is 0.2 % of all codes of six characters.
//
// The batches of a holder stay on record until the holder settles them. If the ledger declares the
// holder dead, Sweep abandons its batches.
//
// Redis must not evict keys (maxmemory-policy noeviction). The Redis user needs the permissions that
// docs/configuration.md lists.
//
// All methods may be called concurrently. Each call of a script blocks for at most a second, and not after ctx ends.
// An error that is defined neither in this package nor in package kgs comes from Redis or from the connection.
// After such an error, it is unknown whether the script has run.
type Pool struct {
	client  redis.UniversalClient
	cfg     Config
	keys    []string
	scripts scripts
	held    *heldBatches

	// The channel turn serves as a mutex, which a Take holds while it runs. So only one Take runs at a time, and the
	// process sends its batch ids in ascending order. If a Take arrives late, the script recognises it by its old id.
	turn    chan struct{}
	refused refusal // series of refused Takes; turn guards it
	next    int64   // id of the next batch; Take increments it after it has read the reply
}

var _ kgs.Supply = (*Pool)(nil)

// New returns a pool that uses client. It does not call Redis. The client must not retry for
// longer than callers can wait; see [OpenClient]. The caller closes the client.
func New(client redis.UniversalClient, cfg Config) *Pool {
	cfg.Name, cfg.Prefix, cfg.Alarm = cmp.Or(cfg.Name, "default"), cmp.Or(cfg.Prefix, DefaultPrefix), cmp.Or(cfg.Alarm, new(Alarm))
	return &Pool{
		client:  client,
		cfg:     cfg,
		keys:    keyNames(cfg.Prefix, tag(cfg.Name, cfg.List)),
		scripts: newScripts(cfg.Database),
		held:    newHeldBatches(),
		turn:    make(chan struct{}, 1),
		next:    1,
	}
}

// Take takes up to n keys. If the reply to the previous Take was lost, Take returns the batch of
// that call, which may have more than n keys. Take fails with [kgs.ErrEmpty] when the pool is empty, and
// with [kgs.ErrNoEpoch] when the pool lost its state.
func (p *Pool) Take(ctx context.Context, n int) (*kgs.Batch, error) {
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	defer p.unlock()
	reply, err := p.run(ctx, p.scripts.take, p.cfg.Holder, p.next, n).Text()
	p.refused.note(err, p.cfg.Alarm, "Redis refuses to give keys")
	if err != nil {
		return nil, fmt.Errorf("take from the pool: %w", err)
	}
	id := p.next
	p.next++
	if reply == "" {
		return nil, kgs.ErrEmpty
	}
	text, codes, _ := strings.Cut(reply, " ")
	epoch, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("take from the pool: the epoch %.40q: %w", text, errReplyForm)
	}
	b := &kgs.Batch{ID: id, Source: kgs.SourcePool, Codes: strings.Split(codes, " ")}
	if b.Codes, err = p.withoutInvalid(ctx, b.Codes); err != nil {
		return nil, err
	}
	if len(b.Codes) == 0 {
		return nil, kgs.ErrEmpty
	}
	p.held.add(b, epoch)
	return b, nil
}

// Settle reports what happened to the keys of b; see [kgs.Supply]. Settle does not wait for the
// ledger: Redis keeps the lost codes on record, and Sweep reports them to the ledger later.
// The pool does not take back unused keys of an earlier epoch: they are abandoned with their epoch.
func (p *Pool) Settle(ctx context.Context, b *kgs.Batch, unused, lost []string) error {
	if err := p.held.lock(ctx); err != nil {
		return err
	}
	defer p.held.unlock()
	batch := p.held.find(b.ID)
	if batch == nil { // already settled
		return nil
	}
	abandoned, err := p.settle(ctx, batch, unused, lost)
	if err != nil {
		return fmt.Errorf("settle batch %d in the pool: %w", b.ID, err)
	}
	p.held.remove(batch)
	if abandoned && p.cfg.Metrics != nil {
		p.cfg.Metrics.CountAbandoned(kgs.ReasonEarlierEpoch, int64(len(unused)))
	}
	return nil
}

// settle ends b in Redis. The result abandoned reports whether the unused keys are abandoned with their epoch. If b was
// on record in the present epoch and the record no longer exists, settle returns false, because it cannot distinguish two
// cases: a Sweep has abandoned the whole batch because this holder seemed dead, or the reply to an earlier settle of b was
// lost.
func (p *Pool) settle(ctx context.Context, b *heldBatch, unused, lost []string) (abandoned bool, err error) {
	reply, err := p.run(ctx, p.scripts.settle, p.cfg.Holder, b.id, strings.Join(unused, " "), strings.Join(lost, " "),
		kgs.ReasonLostReply, b.codes[0], b.epoch).Int64Slice()
	if errors.Is(err, kgs.ErrNoEpoch) { // the next epoch abandons this batch
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if len(reply) != 2 { // if the epoch is missing or not a number, the reply ends before it
		return false, fmt.Errorf("%w: %d numbers", errReplyForm, len(reply))
	}
	found, epoch := reply[0] == 1, reply[1]
	if found {
		return b.epoch != epoch, nil
	}
	return b.recorded != epoch, nil
}

// Release ends the use of the pool by this holder. Call it after the last Settle. If the holder did not read the reply
// to its last Take, the keys of that reply go back to the pool. Release keeps any other unsettled batch on record. When
// the ledger no longer has the holder, a Sweep abandons such a batch.
func (p *Pool) Release(ctx context.Context) error {
	if err := p.lock(ctx); err != nil {
		return err
	}
	defer p.unlock()
	err := p.run(ctx, p.scripts.release, p.cfg.Holder, p.next).Err()
	if err != nil && !errors.Is(err, kgs.ErrNoEpoch) {
		return fmt.Errorf("release the holder in the pool: %w", err)
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

// CheckWrites checks that Open would succeed with runID at present. It changes nothing. It fails as Open does, for example
// with the error of Redis if Redis refuses to write.
func (p *Pool) CheckWrites(ctx context.Context, runID string) error {
	if err := p.run(ctx, p.scripts.checkWrites, runID).Err(); err != nil {
		return fmt.Errorf("check that the pool can be opened: %w", err)
	}
	return nil
}

// Open makes an empty pool for epoch. runID is the name of the history for which the pool is
// opened; [Pool.Status] returns it. If the pool is open for this epoch or a later epoch, Open
// changes nothing. Open fails with [kgs.ErrNoEpoch] if Redis now has a history with another name, and
// with [ErrForeign] if another database owns the pool and a worker of that database has confirmed this
// within the last minute.
//
// Only the worker that began the epoch in the ledger may call Open for this epoch, and only once. A second
// Open for the same epoch after a flush would be unsafe: the marks of that epoch are lost, so a
// worker would push its current range again from the start.
func (p *Pool) Open(ctx context.Context, epoch int64, runID string) error {
	if err := p.run(ctx, p.scripts.open, runID, epoch).Err(); err != nil {
		return fmt.Errorf("open the pool for epoch %d: %w", epoch, err)
	}
	return nil
}

// Push appends the codes of the numbers [lo, hi) of r to the pool. codes holds these codes one
// after the other, without separators. Push returns the new mark of r, which is the next number
// that the pool expects.
//
// If the old mark is lo, Push pushes the codes and returns hi. If the old mark is another number,
// Push pushes nothing and returns the old mark, at which the worker must continue. The old mark
// differs from lo if the reply to an earlier push was lost, or if another worker has pushed codes of
// the same range. So each number of a range is pushed once, even if several workers push the range.
//
// Push fails with [kgs.ErrFenced] if the range was delivered or belongs to an older epoch. It fails
// with [kgs.ErrNoEpoch] if the pool is not open for the epoch of r, or if the old mark is a number
// that no Push has written. If the old mark is such a number, Push raises the alarm and marks the
// pool as damaged. Redis runs nothing else during a push, which takes about 3 ms for 10,000 codes.
func (p *Pool) Push(ctx context.Context, r ledger.Reservation, lo, hi int64, codes []byte) (mark int64, err error) {
	if lo < r.Lo || hi <= lo || hi > r.Hi || int64(len(codes)) != (hi-lo)*int64(r.Length) {
		return 0, fmt.Errorf("push to the pool: %d bytes are not the codes of [%d, %d) of range %d [%d, %d)",
			len(codes), lo, hi, r.ID, r.Lo, r.Hi)
	}
	mark, err = p.run(ctx, p.scripts.push, r.Epoch, r.ID, r.Lo, lo, hi, r.Length, codes).Int64()
	if err != nil {
		return 0, fmt.Errorf("push to the pool: %w", err)
	}
	// The script compares texts, so mark == lo means that the stored mark has another form, such as +7 instead of 7.
	if mark < r.Lo || mark > r.Hi || mark == lo {
		err := p.damage(ctx, fmt.Sprintf("the mark of range %d [%d, %d) is %d at a push from %d", r.ID, r.Lo, r.Hi, mark, lo))
		return 0, errors.Join(fmt.Errorf("push to the pool: %w", kgs.ErrNoEpoch), err)
	}
	return mark, nil
}

// Forget deletes the marks of all ranges with ids below floor, and fences these ranges. A worker
// that was frozen can then no longer push them. Forget never lowers the floor. If epoch is not
// the epoch of the pool, Forget fails with the same errors as Push.
func (p *Pool) Forget(ctx context.Context, epoch, floor int64) error {
	if err := p.run(ctx, p.scripts.forget, epoch, floor).Err(); err != nil {
		return fmt.Errorf("fence the pool below range %d: %w", floor, err)
	}
	return nil
}
