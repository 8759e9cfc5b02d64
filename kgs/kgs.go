// Package kgs is the key generation service: it prepares unique short codes ahead
// of time, so that nobody searches for a free one while a user waits.
//
// The supply chain, in the order a key travels it:
//
//	Ledger     a durable counter; reserves ranges of consecutive numbers
//	Space      the permutation that turns a number into a code and back (FF1)
//	Worker     ships reserved ranges to a pool whenever it runs low
//	pool       RedisPool (codes in a Redis list) or MemoryPool (ranges in the process)
//	Source     a server's local batch; hands out one key at a time from memory
//	Generator  whatever yields a key when a creation wants one, as a Source does
//
// A PostgresPool goes without the first two: a Worker fills it with codes that are drawn by
// chance. RedisIncr, Tickets, Snowflake, Hash, UUID and Random are Generators by themselves
// and have no batches.
//
// Vocabulary: a number is a counter value of a space; a code is what the space
// makes of it; a key is a code that was handed to one creation. A batch is what
// one holder (a server process) took from a pool. An epoch is the life of one
// pool: when a pool lost data or may have, a new epoch begins and whatever the
// old one held is written off. A scheme is one whole way to get codes, of which a
// program has one: from a Generator back to whatever it draws on. A lease is keys that
// somebody has until it is known what became of them: a [Lease] is a batch in the hands
// of a Source, a [ClientLease] numbers of the ledger in those of another program.
//
// Invariants:
//
//   - a number of the ledger is reserved once, shipped once, and handed out once unless it
//     comes back unused, whatever crashes;
//   - at any time each reserved number can be accounted for by name: it is linked, in
//     a pool, in a batch, on its way to a pool, or abandoned for a stated reason.
//
// What keeps the other schemes from giving a key twice, each of their types says.
//
// The package knows nothing of links. That two keys never become one link is for
// the link store's primary key to judge; this package sees to it that the judge
// has nothing to do.
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

// Range is a run that the ledger keeps a row for, under an id that never changes
// and that grows with every reservation.
type Range struct {
	Run
	ID    int64
	Epoch int64 // the epoch it was reserved in
}

// Batch is the keys that a holder took from a supply in one go.
type Batch struct {
	ID     int64    // names the batch in the books of its supply
	Source string   // metric label and Source of the links: SourcePool, SourceLedger, ...
	Codes  []string // in the order they are to be handed out; not to be changed
}

// Supply is where a [Source] takes its batches from, always n keys at a time.
// Both methods may be called from any goroutine, block as long as ctx allows, and
// are safe to repeat after an error: a repeated Take whose first answer was lost
// does not lose the keys of that answer where the engine can tell.
type Supply interface {
	// Take hands up to n keys (at least one) to the holder, who keeps the books for
	// them until Settle. ErrEmpty and ErrNoEpoch mean that the supply is alive and has
	// nothing to give, ErrExhausted that no space has numbers left; any other error,
	// that it cannot be reached.
	Take(ctx context.Context, n int) (*Batch, error)
	// Settle closes the books on b, of which by now every code has met its fate: those
	// in unused go back to the supply, those in lost are abandoned, all others are
	// spent. A batch that the supply no longer knows (it was written off meanwhile)
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
	SourceKGS          = "kgs" // a remote KGS, whose books are its own
)
