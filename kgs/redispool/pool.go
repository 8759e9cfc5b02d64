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
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"keypool/kgs"
	"keypool/kgs/codespace"
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

	// A Take holds the semaphore turn while it runs. So only one Take runs at a time, and the process sends its batch ids
	// in ascending order. If a Take arrives late, the script recognises it by its old id.
	turn    *semaphore.Weighted
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
		turn:    semaphore.NewWeighted(1),
		next:    1,
	}
}
