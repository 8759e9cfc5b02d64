// Package audit accounts for every number that a ledger ever reserved, and for every key of a
// PostgreSQL pool, while servers and workers go on.
//
// Each number is linked, in a pool, in a batch, on its way to a pool, or abandoned for a
// reason. A number that is in none of these places, or in two that exclude each other, is a
// [Fault].
//
// Invariant: the accounts close. Without a fault, Reserved is the sum of all other places.
package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// Evidence is where an audit looks. Everything in it may change while the audit
// reads: servers and workers go on.
type Evidence struct {
	Space    *codespace.Space
	Snapshot func(context.Context) (ledger.Snapshot, error)
	Epoch    func(context.Context) (int64, error)                  // of the shared pool; nil where there is none
	Pool     func(context.Context) iter.Seq2[kgs.PoolEntry, error] // what the shared pool has on record
	Links    func(context.Context) iter.Seq2[Linked, error]        // every row of the link store
}

// Linked is a code that the link store has a row for.
type Linked struct {
	Code   string
	Source string
}

// Accounts is where each number that was ever reserved is. They close when there
// is no fault: Reserved is then the sum of all that follows it, down to Abandoned.
type Accounts struct {
	Reserved  int64            `json:"reserved"`
	InPool    int64            `json:"in_pool"`
	InBatches int64            `json:"in_batches"`
	Shipping  int64            `json:"shipping"`    // on their way to the shared pool
	OnTheMove int64            `json:"on_the_move"` // between two of these places while the audit read
	Linked    int64            `json:"linked"`
	Abandoned map[string]int64 `json:"abandoned"` // by reason
	Links     map[string]int64 `json:"links"`     // rows by source, aliases and random codes too
	Epochs    []EpochAccounts  `json:"epochs"`    // the same, by the epoch the numbers are of
	Faults    []Fault          `json:"faults"`

	PostgresPool *PostgresPoolAccounts `json:"postgres_pool,omitempty"` // of keys that no number has
}

// EpochAccounts is the accounts of one epoch, that is of the numbers that were first
// reserved in it. A key that was handed back and shipped again later stays with it.
type EpochAccounts struct {
	Epoch     int64            `json:"epoch"` // 0: before there was a shared pool
	Reserved  int64            `json:"reserved"`
	InPool    map[string]int64 `json:"in_pool"`    // by the books that they were found in
	InBatches map[string]int64 `json:"in_batches"` // likewise
	Shipping  int64            `json:"shipping"`
	OnTheMove int64            `json:"on_the_move"`
	Linked    map[string]int64 `json:"linked"`    // by source
	Abandoned map[string]int64 `json:"abandoned"` // by reason
	Missing   int64            `json:"missing"`   // each of them a fault
}

// The books in which a number that waits can be found.
const (
	RecordOfPool   = "pool"   // the shared pool's
	RecordOfLedger = "ledger" // those of pools and batches that a process has by itself
)

// FaultKind is a way in which accounts do not close.
type FaultKind string

// The kinds of faults.
const (
	FaultMissing    FaultKind = "missing"    // reserved, and nowhere to be found
	FaultDuplicate  FaultKind = "duplicate"  // in more than one place that hands out keys
	FaultReused     FaultKind = "reused"     // linked, and still waiting to be handed out
	FaultForeign    FaultKind = "foreign"    // in the pool, or linked as a key of the ledger, which never reserved it
	FaultUnrecorded FaultKind = "unrecorded" // linked as a key of the PostgreSQL pool, which has no row for it
)

// Fault is one code that keeps the accounts from closing.
type Fault struct {
	Kind FaultKind `json:"kind"`
	Code string    `json:"code"`
}

func (f Fault) String() string {
	switch f.Kind {
	case FaultMissing:
		return f.Code + " is missing: reserved, and not linked, in no pool or batch, not abandoned"
	case FaultDuplicate:
		return f.Code + " is a duplicate: waiting to be handed out in two places"
	case FaultReused:
		return f.Code + " is reused: linked, and yet waiting to be handed out again"
	case FaultUnrecorded:
		return f.Code + " is unrecorded: linked as a key of the PostgreSQL pool, which has no row for it"
	default:
		return f.Code + " is foreign: used as a key of the ledger, which never reserved it"
	}
}

var (
	// ErrPoolUnknown says that an audit was not shown the pool that the ledger knows of.
	ErrPoolUnknown = errors.New("the audit does not see the shared pool that the ledger knows of")
	// ErrEpochChanged says that what an audit had read of the pool was written off
	// before it was done. Another one can be run at once.
	ErrEpochChanged = errors.New("the shared pool began a new epoch while the audit read")
)

// auditPasses is how often a fault must be seen in a row. Keys move on while the
// audit reads, so one that was missed, or seen twice, may be innocent; one that is
// missed again and again does not move.
const auditPasses = 3

// Run accounts for every reserved number by name. It reads links, pool and books
// from end to end and up to three times, in the direction in which keys travel,
// takes one byte of memory a reserved number, locks nobody out, and may be run by
// anyone at any time. An error means that it could not be done, as in the moment in
// which the shared pool has lost its data: ErrNoEpoch, ErrFenced, ErrPoolUnknown or
// ErrEpochChanged then.
//
// Nobody keeps a list of what was in a pool that lost its data. So a number that is
// found nowhere and was reserved before the present epoch counts as lost with its
// own epoch, whatever became of it; of the present epoch, it is a fault.
func Run(ctx context.Context, e Evidence) (Accounts, error) {
	var suspects map[Fault]bool // anything, the first time
	for i := 0; ; i++ {
		p, err := e.pass(ctx, suspects)
		if err != nil {
			return Accounts{}, err
		}
		if len(p.accused) == 0 || i == auditPasses-1 {
			return p.accounts, nil
		}
		suspects = p.accused
	}
}

func (e Evidence) pass(ctx context.Context, suspects map[Fault]bool) (*pass, error) {
	before, err := e.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	p := newPass(e.Space, before, suspects)
	p.addRanges(before)
	p.findOverlaps(before)
	if before.Epoch.Number > 0 { // or else there never was a shared pool
		if err := e.checkEpoch(ctx, before.Epoch.Number); err != nil {
			return nil, err
		}
		if err := p.addPool(e.Pool(ctx)); err != nil {
			return nil, err
		}
	}
	if err := p.addLinks(e.Links(ctx)); err != nil {
		return nil, err
	}
	after, err := e.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if after.Epoch.Number != before.Epoch.Number {
		return nil, fmt.Errorf("%w: %d, after %d", ErrEpochChanged, after.Epoch.Number, before.Epoch.Number)
	}
	p.addRanges(after)
	p.findForeign(after)
	p.sum(before)
	return p, nil
}

// checkEpoch fails unless the pool that the audit is shown is the ledger's present one:
// in any other, what is missing would look lost.
func (e Evidence) checkEpoch(ctx context.Context, want int64) error {
	if e.Epoch == nil {
		return fmt.Errorf("%w: it was not told where to look", ErrPoolUnknown)
	}
	epoch, err := e.Epoch(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPoolUnknown, err)
	}
	if epoch != want {
		return fmt.Errorf("%w: it was shown one of epoch %d, the ledger's is of epoch %d", ErrPoolUnknown, epoch, want)
	}
	return nil
}
