// Package kgs prepares unique short codes ahead of time, so that a request for a short URL
// does not search for a free code. It defines the contracts of the key generation service
// and the parts of it that every server has: the local batch ([Source]), the [Breaker] and
// the [Metrics]. The subpackages implement the contracts:
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
// A key travels in this order: the ledger reserves a range of numbers, a space turns the
// numbers into codes, a worker pushes the codes to a pool, a Source takes a batch from the
// pool, and hands out one key to each creation. A PostgreSQL pool needs neither ledger nor
// space. The key sources without batches have no pool either.
//
// Vocabulary:
//
//   - a number is a counter value; a code is the string that a space makes of it; a key is
//     a code that is ready to be assigned;
//   - a pool holds keys until a server takes them; a batch is the keys that one server, its
//     holder, took at once;
//   - a holder settles a batch: it reports for every key whether it is used, returned or lost;
//   - an epoch is one generation of a pool: a pool that may have lost data begins a new
//     epoch, and the keys of the old one are written off;
//   - a key source is one selectable way to get codes (KEY_SOURCE).
//
// Invariants:
//
//   - the ledger reserves each number once, a worker pushes it once, and a server hands it
//     out once unless it comes back unused, whatever crashes;
//   - at any time each reserved number can be accounted for by name: it is linked, in a
//     pool, in a batch, on its way to a pool, or abandoned for a stated reason.
//
// The key sources without a ledger state their own guarantees. The package does not know
// links. The primary key of the link store finally decides which link a code belongs to; as
// long as the invariants hold, that constraint never fires for keys of the ledger.
package kgs

import (
	"context"
	"errors"
)

var (
	// ErrEmpty says that a supply answered and has no key left just now.
	ErrEmpty = errors.New("the supply of keys is empty")
	// ErrNoEpoch says that a pool lost data, or may have: nothing can be taken from
	// it until a worker has opened a new epoch.
	ErrNoEpoch = errors.New("the pool lost its state and waits for a new epoch")
	// ErrFenced says that somebody else has taken over what the caller tried to go
	// on with. The caller must forget it; nothing was changed.
	ErrFenced = errors.New("taken over by another process")
	// ErrExhausted says that every number of every code length is reserved.
	ErrExhausted = errors.New("every code length is used up")
)

// Batch is the keys that a holder took from a supply in one go.
type Batch struct {
	ID     int64    // names the batch in the records of its supply
	Source string   // metric label and Source of the links: SourcePool, SourceLedger, ...
	Codes  []string // in the order they are to be handed out; not to be changed
}

// Supply is where a [Source] takes its batches from, always n keys at a time.
// Both methods may be called from any goroutine, block as long as ctx allows, and
// are safe to repeat after an error: a repeated Take whose first answer was lost
// does not lose the keys of that answer where the engine can tell.
type Supply interface {
	// Take gives up to n keys (at least one) to the holder, which accounts for them until
	// Settle. ErrEmpty and ErrNoEpoch mean that the supply is alive and has
	// nothing to give, ErrExhausted that no space has numbers left; any other error,
	// that it cannot be reached.
	Take(ctx context.Context, n int) (*Batch, error)
	// Settle reports what happened to every code of b: those in unused go back to the
	// supply, those in lost are abandoned, all others are used. A batch that the supply no longer knows (it was written off meanwhile)
	// is settled already: no error.
	Settle(ctx context.Context, b *Batch, unused, lost []string) error
}

// Reasons for which keys are abandoned: the label of kgs_keys_abandoned_total.
const (
	ReasonCrash     = "crash"      // their holder died with them
	ReasonEpoch     = "epoch"      // their pool lost data
	ReasonLostReply = "lost_reply" // nobody knows whether their link was committed
	ReasonRollback  = "rollback"   // the ledger's database came back from an older state, and the ledger jumped over them
	ReasonClient    = "client"     // handed to a client program, whose links are its own
	ReasonConflict  = "conflict"   // an alias or a random code had them first; known to the audit alone
)

// Sources of keys, as metrics and links name them. The ledger accounts for the numbers
// of the first two, and for those of SourceKGS that its own clients have.
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
	SourceKGS          = "kgs" // a remote KGS, which has a ledger of its own
)
