// Package kgs prepares unique short codes ahead of time, so that the creation of a short URL does
// not search for a free code. It defines the contracts of the key generation service: [Supply] and
// [Generator]. It also contains what every server needs: the local batch ([Source]), the [Breaker]
// and the [Metrics]. The subpackages implement the contracts:
//
//	codespace   turns numbers into codes and codes into numbers (FF1); defines ranges of numbers
//	ledger      reserves ranges of numbers durably, and records what happens to them
//	refill      keeps a pool full, and raises an alarm when a pool runs low
//	redispool   a pool of codes in a Redis list
//	pgpool      a pool of random codes in PostgreSQL tables
//	mempool     a pool of ranges in the memory of one process; also batches from the ledger without a pool
//	keysource   key sources without batches: redis-incr, ticket, snowflake, hash, uuid, random
//	audit       accounts for every reserved number
//	explain     the history of one code, as far as the database records it
//	keyserver   serves keys to other programs over gRPC and HTTP
//	kgstest     conformance tests for the contracts
//
// A key passes through these steps. The ledger reserves a range of numbers. A code space turns the numbers into codes.
// A worker pushes the codes to a pool. A Source takes a batch from the pool, and gives one key to each creation (each
// request that creates a link).
//
// With some pools and key sources, the steps differ. A pool in PostgreSQL holds random codes, so it needs neither the
// ledger nor a code space. A pool in memory holds ranges, and makes the codes of a batch when a Source takes the batch.
// Without a pool, a Source takes its batches from the ledger or from a key service. The key sources of package keysource
// have neither a pool nor batches.
//
// Vocabulary:
//
//   - a number is a counter value;
//   - a code is the string that a code space maps a number to;
//   - a key is a code that is ready to be assigned;
//   - a pool holds keys until servers take them;
//   - a batch is the keys that one server took in one call;
//   - a holder is the process, or the worker of a process, that a batch or a range belongs to. To settle
//     a batch, its holder reports for every key whether the key is used, returned or lost;
//   - a pool in Redis consists of one list or more;
//   - an epoch is one generation of a list. When a list may have lost data, a new epoch of the list
//     begins, and the keys that are still in the list are abandoned;
//   - a key source is one selectable way to get codes (KEY_SOURCE).
//
// These invariants hold after any crash:
//
//   - the ledger reserves each number once, a worker pushes the key of the number once, and a server
//     hands out the key once. Two kinds of numbers can go through these steps again: a number that was
//     returned unused, and a number that was in the memory pool of a process that ended;
//   - an audit can account for each reserved number at any time. The number is used by a link, in a pool, in a batch,
//     on its way to a pool, or abandoned for a recorded reason.
//
// The key sources without a ledger document their own guarantees. This package does not access links. The primary key
// of the link store decides which link a code belongs to. As long as the invariants hold, no two links get the same key
// of the ledger. The primary key may still reject a key of the ledger. In this case, the code is the alias of another
// link, or another link got the code from a key source without a ledger.
package kgs

import (
	"context"
	"errors"
)

var (
	// ErrEmpty means that a supply is reachable but has no keys now.
	ErrEmpty = errors.New("the supply of keys is empty")
	// ErrNoEpoch means that a pool lost data or may have lost data. The pool gives no keys until a
	// worker opens a new epoch.
	ErrNoEpoch = errors.New("the pool lost its state and waits for a new epoch")
	// ErrFenced means that the caller must stop using its range, batch or machine id, because another process has taken
	// it over or a new epoch has begun. The call changed nothing.
	ErrFenced = errors.New("taken over by another process")
	// ErrExhausted means that every number of every code length is reserved.
	ErrExhausted = errors.New("every code length is used up")
)

// Batch is the keys that a holder took from a supply in one call.
type Batch struct {
	ID     int64    // id of the batch in the records of the supply
	Source string   // name of the key source in metrics and links: SourcePool, SourceLedger, ...
	Codes  []string // codes in the order in which to hand them out; read-only
}

// Supply gives batches of keys to a [Source]. Both methods are safe for concurrent use. They return
// at the latest when ctx ends, unless the implementation documents a later return. The caller may
// repeat a call after an error. If the answer of a Take was lost, a supply that recognises the
// repeated Take returns the same keys again.
type Supply interface {
	// Take returns a batch of 1 to n keys. A repeated Take may return more than n keys, because it
	// returns the keys of the first call. The caller becomes the holder of the batch and is
	// responsible for these keys until Settle. ErrEmpty and ErrNoEpoch mean that the supply is
	// reachable but gives no keys now. ErrExhausted means that no code length has numbers left. Any
	// other error means that the supply failed or could not be reached.
	Take(ctx context.Context, n int) (*Batch, error)
	// Settle reports what happened to every code of b. The codes in unused return to the supply,
	// the codes in lost are abandoned, and all other codes are used. If the batch is already
	// settled or abandoned, Settle changes nothing and returns nil.
	Settle(ctx context.Context, b *Batch, unused, lost []string) error
}

// Reasons why keys are abandoned. They are values of the reason label of kgs_keys_abandoned_total, except for
// ReasonConflict. The audit counts the keys of ReasonEarlierEpoch under ReasonEpoch.
const (
	ReasonCrash        = "crash"         // the holder of the keys crashed
	ReasonEpoch        = "epoch"         // the pool of the keys lost data
	ReasonEarlierEpoch = "earlier_epoch" // a server took the keys in an earlier epoch and did not use them
	ReasonLostReply    = "lost_reply"    // it is unknown whether a link with the key was committed
	ReasonRollback     = "rollback"      // the ledger skipped the numbers after a rollback of its database
	ReasonClient       = "client"        // a client program has the keys, and the ledger does not record its links
	ReasonConflict     = "conflict"      // a link has the code as its alias or random code; only the audit reports this
)

// Names of key sources in metrics and links. The keys of SourcePool and SourceLedger stand for numbers
// of the ledger. A key of SourceKGS stands for a number of the ledger of the remote KGS. That ledger
// may differ from the ledger of the server that takes the key.
const (
	SourcePool         = "pool"
	SourceLedger       = "ledger"
	SourcePostgresPool = "postgres-pool"
	SourceRedisIncr    = "redis-incr"
	SourceTicket       = "ticket"
	SourceSnowflake    = "snowflake"
	SourceHash         = "hash"
	SourceUUID         = "uuid"
	SourceRandom       = "random"
	SourceKGS          = "kgs" // a remote KGS
)

// PoolStatus is the state of a pool. Every kind of pool reports it.
type PoolStatus struct {
	Keys   int64 // number of keys in the pool
	Taken  int64 // number of keys that servers have taken from the pool in this epoch
	Pushed int64 // number of keys that workers have pushed to the pool in this epoch
	Epoch  int64 // the pool's epoch; 0 for a pool without epochs
	// Partial is true if a list of the pool could not be read. Keys then leaves out the keys of this list.
	Partial bool
}

// PoolEntry is a code that a shared pool has on record.
type PoolEntry struct {
	Code    string
	InBatch bool // true if the code is in a batch or a write-off, false if it is in the pool itself
}
