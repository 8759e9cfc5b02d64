// Package audit accounts for every number that a ledger ever reserved, and for every key of a
// PostgreSQL pool. Servers and workers may run during an audit. The shared pool is the pool in Redis, which
// servers and workers share. An epoch is one generation of a list of the shared pool.
//
// Each reserved number is used by a link, in a pool, in a batch, on its way to a pool, or abandoned
// for a reason. A number is a [Fault] if it is in none of these places, or in two places that exclude
// each other. A number that moved during the audit, or was lost with an earlier epoch, is not a fault. The
// accounts close if there is no fault.
//
// An audit is a merge of two sorted streams. The first stream is the reserved numbers, divided into
// segments. All numbers of a segment have the same place in the ledger or in the pool. The second
// stream is the links.
//
// Invariant: if the accounts close, the counts of [Accounts] from InPool to Abandoned add up to
// Reserved.
package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// Evidence is the data that an audit reads. All data may change during the audit, because servers
// and workers keep running.
type Evidence struct {
	Space    *codespace.Space
	Snapshot func(context.Context) (ledger.Snapshot, error)
	Links    func(context.Context) iter.Seq2[Linked, error] // every row of the link store
	Order    Order                                          // order of the link store; usually Space

	// Epochs returns the current epoch of each list of the shared pool that is in want. The keys of want and of the
	// result are the numbers of the lists. The values of want are the epochs that the ledger has on record. Epochs is nil
	// if there is no shared pool.
	Epochs func(ctx context.Context, want map[int]int64) (map[int]int64, error)
	// Pool yields the codes that the shared pool has on record in the given lists. The parameter lists has the same form
	// as the parameter want of Epochs.
	Pool func(ctx context.Context, lists map[int]int64) iter.Seq2[kgs.PoolEntry, error]
	// Patience is how long Run waits for a shared pool that lost its data and has no new epoch yet.
	Patience time.Duration
}

// Linked is a row of the link store.
type Linked struct {
	Code   string
	Source string
	Rank   int64 // rank under which the store keeps the row; -1 if it keeps the row without a rank
}

// Order is the order in which the link store keeps its rows. Rank returns the rank of a code, or false if the code has
// none. The store finds the row of a code only under this rank.
type Order interface {
	Rank(code string) (rank int64, ok bool)
}

// Accounts counts the reserved numbers by place. Without a fault, Reserved is the sum of the
// fields from InPool to Abandoned.
type Accounts struct {
	Reserved  int64            `json:"reserved"`
	InPool    int64            `json:"in_pool"`
	InBatches int64            `json:"in_batches"`
	Shipping  int64            `json:"shipping"`    // numbers on their way to the shared pool
	OnTheMove int64            `json:"on_the_move"` // numbers in no place, because they moved during the audit
	Linked    int64            `json:"linked"`
	Abandoned map[string]int64 `json:"abandoned"` // numbers by reason
	Links     map[string]int64 `json:"links"`     // rows of the link store by source, including aliases and random codes
	Epochs    []EpochAccounts  `json:"epochs"`    // the same counts by the epoch of the numbers
	Faults    []Fault          `json:"faults"`    // the first MaxListed faults of each kind

	FaultCounts  map[FaultKind]int64   `json:"fault_counts"`            // number of all faults by kind; nil if there is no fault
	PostgresPool *PostgresPoolAccounts `json:"postgres_pool,omitempty"` // keys of a PostgreSQL pool, which have no numbers
}

// EpochAccounts counts the numbers that were first reserved in one epoch. A number stays in that
// epoch even if it is returned and delivered again later.
type EpochAccounts struct {
	Epoch     int64            `json:"epoch"` // 0 for the time before the first shared pool
	Reserved  int64            `json:"reserved"`
	InPool    map[string]int64 `json:"in_pool"`    // numbers by record: RecordOfPool or RecordOfLedger
	InBatches map[string]int64 `json:"in_batches"` // numbers by record, as in InPool
	Shipping  int64            `json:"shipping"`
	OnTheMove int64            `json:"on_the_move"`
	Linked    map[string]int64 `json:"linked"`    // numbers by the source of the link
	Abandoned map[string]int64 `json:"abandoned"` // numbers by reason
	Missing   int64            `json:"missing"`   // numbers in no place; each of these numbers is a fault
}

// Names of the two records that can show that a number is in a pool or in a batch.
const (
	RecordOfPool   = "pool"   // the record of the shared pool
	RecordOfLedger = "ledger" // the ledger's record of batches and of pools inside a process
)

var (
	// ErrPoolUnknown means that the audit cannot read the shared pool, or that the pool is not in the epoch of the
	// ledger.
	ErrPoolUnknown = errors.New("the audit cannot read the shared pool of the ledger")
	// ErrEpochChanged means that the shared pool began a new epoch during the audit. The audit can be
	// repeated at once.
	ErrEpochChanged = errors.New("the shared pool began a new epoch during the audit")

	errOtherEpoch = errors.New("the shared pool and the ledger are in different epochs")
)

// retryInterval is the time between two audits while the shared pool has no new epoch.
const retryInterval = 500 * time.Millisecond

// auditPasses is how many consecutive passes must find a fault before the fault counts. Keys move
// while the audit reads, so one pass may miss a key or see it twice. If every pass misses a key,
// the reason is not a move.
const auditPasses = 3

// Run accounts for every reserved number. It makes up to three passes. Keys move from the ledger to the pool, and from
// the pool to links. Therefore each pass reads in the same order: first the whole ledger, then the whole pool and then
// all links. At its end, a pass reads the ledger again. Run takes no locks that block other processes, and several
// audits may run at once.
//
// Run merges the links with the reserved numbers. In memory, it keeps the rows of the ledger, the ranges of the keys in
// the pool, and the gaps between the links of the present epoch. It keeps nothing for the other numbers and links. If
// the links arrive in the order of their ranks in Space, the memory does not grow with the number of links or of
// reserved numbers. In a random order, Run gives the same accounts, but needs up to 40 bytes for each link of the
// present epoch.
//
// A fault counts only if every pass finds the fault, because keys move during a pass. Two kinds of faults count even if
// only the last pass finds them: a code that is used as a key and has no number, and a misplaced row. A row is misplaced
// if a search for its code would miss the row. Run compares all faults of the passes, although Accounts lists only the
// first MaxListed faults of each kind. Accounts lists faults in the order of their ranks, and faults of the two kinds
// above in the order of the bytes of their codes.
//
// An error means that Run could not complete the audit. If the shared pool loses its data during the audit, or waits
// for a new epoch, Run begins again. When the time Patience has passed, Run stops and returns [kgs.ErrNoEpoch],
// [kgs.ErrFenced], ErrPoolUnknown or ErrEpochChanged.
//
// There is no list of the keys that a pool held before it lost its data. Therefore, if a number of
// an earlier epoch is in no place, Run counts it as abandoned with the reason [kgs.ReasonEpoch]. If
// a number of the present epoch is in no place, the number is a fault.
func Run(ctx context.Context, e Evidence) (Accounts, error) {
	patience := time.After(e.Patience)
	for {
		accounts, err := e.run(ctx)
		if !epochIsChanging(err) {
			return accounts, err
		}
		select {
		case <-ctx.Done():
			return accounts, err
		case <-patience:
			return accounts, err
		case <-time.After(retryInterval):
		}
	}
}

// epochIsChanging reports whether err means that an audit failed because the shared pool lost its data. In this case,
// the next epoch has not begun yet, or it began during the audit.
func epochIsChanging(err error) bool {
	return errors.Is(err, kgs.ErrNoEpoch) || errors.Is(err, kgs.ErrFenced) || errors.Is(err, ErrEpochChanged) || errors.Is(err, errOtherEpoch)
}

func (e Evidence) run(ctx context.Context) (Accounts, error) {
	var previous faultRanks // nil in the first pass, in which every fault is possible
	for i := 0; ; i++ {
		p, err := e.pass(ctx, previous)
		if err != nil {
			return Accounts{}, err
		}
		if len(p.found) == 0 || i == auditPasses-1 {
			p.reportFaults()
			return p.accounts, nil
		}
		previous = p.found
	}
}

func (e Evidence) pass(ctx context.Context, previous faultRanks) (*pass, error) {
	before, err := e.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	p := newPass(e, before, previous)
	var pool poolRanks
	if before.Epoch.Number > 0 { // epoch 0 means that the ledger has never had a shared pool
		lists := before.Epochs()
		if err := e.checkEpochs(ctx, lists); err != nil {
			return nil, err
		}
		if err := p.readPool(&pool, e.Pool(ctx, lists)); err != nil {
			return nil, err
		}
	}
	p.divide(before.Rows, &pool)
	if err := p.addLinks(e.Links(ctx)); err != nil {
		return nil, err
	}
	after, err := e.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if after.Epoch.Number != before.Epoch.Number {
		return nil, fmt.Errorf("%w: epoch %d after epoch %d", ErrEpochChanged, after.Epoch.Number, before.Epoch.Number)
	}
	if err := p.close(after); err != nil {
		return nil, err
	}
	return p, nil
}

// checkEpochs fails if a list of the pool is not in the epoch that the ledger has on record for this list. In such a
// list, the audit would not find the keys of the ledger's epoch. The map want contains the epochs of the ledger by the
// number of the list.
func (e Evidence) checkEpochs(ctx context.Context, want map[int]int64) error {
	if e.Epochs == nil {
		return fmt.Errorf("%w: no shared pool is configured", ErrPoolUnknown)
	}
	epochs, err := e.Epochs(ctx, want)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPoolUnknown, err)
	}
	for list, epoch := range want {
		if epochs[list] != epoch {
			return fmt.Errorf("%w: %w: list %d is in epoch %d, and the ledger is in epoch %d", ErrPoolUnknown, errOtherEpoch, list, epochs[list], epoch)
		}
	}
	return nil
}
