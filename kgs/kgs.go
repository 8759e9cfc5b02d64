// Package kgs prepares unique short codes ahead of time, so that a request for a short URL does
// not search for a free code. It defines the contracts of the key generation service and the
// parts of it that every server has: the local batch ([Source]), the [Breaker] and the
// [Metrics]. The subpackages implement the contracts:
//
//	codespace   turns numbers into codes and back (FF1); ranges of numbers
//	ledger      reserves ranges of numbers durably, and records what happens to them
//	refill      keeps a pool full, and raises the alarm when a pool runs low
//	redispool   a pool of codes in a Redis list
//	pgpool      a pool of random codes in PostgreSQL tables
//	mempool     a pool of ranges in the process, and batches straight from the ledger
//	keysource   key sources without batches: redis-incr, ticket, snowflake, hash, uuid, random
//	audit       accounts for every reserved number
//	keyserver   serves keys to other programs over gRPC
//	kgstest     conformance tests for the contracts
//
// A key passes through these steps: the ledger reserves a range of numbers. A code space turns
// the numbers into codes. A worker pushes the codes to a pool. A Source takes a batch from the
// pool and gives one key to each creation. A PostgreSQL pool needs neither a ledger nor a code
// space. The key sources without batches have no pool either.
//
// Vocabulary:
//
//   - a number is a counter value; a code is the string that a code space maps it to; a key is
//     a code that is ready to be assigned;
//   - a pool holds keys until a server takes them; a batch is the keys that one server, its
//     holder, took at once;
//   - a holder settles a batch: it reports for every key whether it is used, returned or lost;
//   - an epoch is one generation of a pool: a pool that may have lost data begins a new epoch,
//     and the keys of the old one are abandoned;
//   - a key source is one selectable way to get codes (KEY_SOURCE).
//
// Invariants, which hold after any crash:
//
//   - the ledger reserves each number once, a worker pushes it once, and a server hands it out
//     once, unless the number is returned unused;
//   - at any time an audit can account for each reserved number: it is linked, in a pool, in a
//     batch, on its way to a pool, or abandoned for a recorded reason.
//
// The key sources without a ledger document their own guarantees. This package does not know
// about links. The primary key of the link store decides which link a code belongs to. As long
// as the invariants hold, that constraint never fires for keys of the ledger.
package kgs

import (
	"context"
	"errors"
)

var (
	// ErrEmpty means that a supply is reachable but has no keys now.
	ErrEmpty = errors.New("the supply of keys is empty")
	// ErrNoEpoch means that a pool lost data or may have lost data. No keys can be taken from
	// it until a worker opens a new epoch.
	ErrNoEpoch = errors.New("the pool lost its state and waits for a new epoch")
	// ErrFenced means that another process has taken over the range or batch that the caller
	// worked on. The call changed nothing, and the caller must stop using the range or batch.
	ErrFenced = errors.New("taken over by another process")
	// ErrExhausted means that every number of every code length is reserved.
	ErrExhausted = errors.New("every code length is used up")
)

// Batch is the keys that a holder took from a supply in one call.
type Batch struct {
	ID     int64    // identifies the batch in the supply's records
	Source string   // metric label and Source of the links: SourcePool, SourceLedger, ...
	Codes  []string // in the order in which to hand them out; read-only
}

// Supply is where a [Source] takes its batches from. Both methods are safe for concurrent use,
// block until ctx ends at the latest, and are safe to repeat after an error. If the answer of a
// Take is lost, a repeated Take returns the same keys where the supply can identify the repeat.
type Supply interface {
	// Take gives up to n keys (at least one) to the holder, which accounts for them until
	// Settle. ErrEmpty and ErrNoEpoch mean that the supply is reachable but has no keys to
	// give. ErrExhausted means that no code length has numbers left. Any other error means that
	// the supply could not be reached.
	Take(ctx context.Context, n int) (*Batch, error)
	// Settle reports what happened to every code of b. The codes in unused return to the
	// supply, the codes in lost are abandoned, and all others are used. Settle succeeds without
	// effect if the supply no longer has the batch on record, because the batch was settled or
	// abandoned before.
	Settle(ctx context.Context, b *Batch, unused, lost []string) error
}

// Reasons why keys are abandoned. They are values of the reason label of
// kgs_keys_abandoned_total, except for ReasonConflict.
const (
	ReasonCrash     = "crash"      // their holder crashed
	ReasonEpoch     = "epoch"      // their pool lost data
	ReasonLostReply = "lost_reply" // it is unknown whether their link was committed
	ReasonRollback  = "rollback"   // the ledger skipped them after a rollback of its database
	ReasonClient    = "client"     // a client program has them; its links are unknown here
	ReasonConflict  = "conflict"   // an alias or a random code used the code first; only the audit reports it
)

// Names of key sources in metrics and links. The ledger accounts for the numbers of SourcePool
// and SourceLedger, and for those of SourceKGS that it leased to its own clients.
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
	SourceKGS          = "kgs" // a remote KGS, which has its own ledger
)

// PoolStatus is the state of a pool, in the form that every kind of pool reports.
type PoolStatus struct {
	Keys   int64 // keys in the pool now
	Taken  int64 // keys that servers have taken from the pool in this epoch
	Pushed int64 // keys that workers have pushed to the pool in this epoch
	Epoch  int64 // the pool's epoch; 0 for a pool without epochs
}

// PoolEntry is a code that a shared pool has on record.
type PoolEntry struct {
	Code    string
	InBatch bool // whether the code is in a batch; otherwise it is in the pool itself
}
