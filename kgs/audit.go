package kgs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Evidence is where an audit looks. Everything in it may change while the audit
// reads: servers and workers go on.
type Evidence struct {
	Space *Space
	Books func(context.Context) (Books, error)
	Epoch func(context.Context) (int64, error)           // of the shared pool; nil where there is none
	Pool  func(context.Context) iter.Seq2[Found, error]  // what the shared pool has on record
	Links func(context.Context) iter.Seq2[Linked, error] // every row of the link store
}

// Found is a code that a shared pool has on record.
type Found struct {
	Code  string
	Batch bool // it is in a batch; otherwise in the pool itself
}

// Linked is a code that the link store has a row for.
type Linked struct {
	Code   string
	Source string
}

// Accounts is where each number that was ever reserved is. They close when there
// is no fault: Reserved is then the sum of all that follows it.
type Accounts struct {
	Reserved  int64            `json:"reserved"`
	InPool    int64            `json:"in_pool"`
	InBatches int64            `json:"in_batches"`
	Shipping  int64            `json:"shipping"`    // on their way to the shared pool
	OnTheMove int64            `json:"on_the_move"` // between two of these places while the audit read
	Linked    int64            `json:"linked"`
	Abandoned map[string]int64 `json:"abandoned"` // by reason
	Links     map[string]int64 `json:"links"`     // rows by source, aliases and random codes too
	Faults    []Fault          `json:"faults"`
}

// FaultKind is a way in which accounts do not close.
type FaultKind string

// The kinds of faults.
const (
	FaultMissing   FaultKind = "missing"   // reserved, and nowhere to be found
	FaultDuplicate FaultKind = "duplicate" // in more than one place that hands out keys
	FaultReused    FaultKind = "reused"    // linked, and still waiting to be handed out
	FaultForeign   FaultKind = "foreign"   // linked as a key of the ledger that the ledger never reserved
)

// Fault is one code that keeps the accounts from closing.
type Fault struct {
	Kind FaultKind `json:"kind"`
	Code string    `json:"code"`
}

func (f Fault) String() string {
	switch f.Kind {
	case FaultMissing:
		return f.Code + " was reserved and is nowhere: not linked, in no pool or batch, not abandoned"
	case FaultDuplicate:
		return f.Code + " is waiting to be handed out in two places"
	case FaultReused:
		return f.Code + " is linked and yet waiting to be handed out again"
	default:
		return f.Code + " is linked as a key of the ledger, which never reserved it"
	}
}

// ErrPoolUnknown says that an audit was not shown the pool that the ledger knows of.
var ErrPoolUnknown = errors.New("the audit does not see the shared pool that the ledger knows of")

// auditPasses is how often a fault must be seen in a row. Keys move on while the
// audit reads, so one that was missed, or seen twice, may be innocent; one that is
// missed again and again does not move.
const auditPasses = 3

// Audit accounts for every reserved number by name. It reads links, pool and books
// from end to end and up to three times, in the direction in which keys travel,
// takes one byte of memory a reserved number, locks nobody out, and may be run by
// anyone at any time. An error means that it could not be done.
func Audit(ctx context.Context, e Evidence) (Accounts, error) {
	var accounts Accounts
	var suspects map[Fault]bool
	for range auditPasses {
		a, err := e.pass(ctx)
		if err != nil {
			return Accounts{}, err
		}
		seen := make(map[Fault]bool, len(a.Faults))
		for _, f := range a.Faults {
			seen[f] = suspects == nil || suspects[f]
			if !seen[f] && f.Kind == FaultMissing {
				a.OnTheMove++
			}
		}
		a.Faults = slices.DeleteFunc(a.Faults, func(f Fault) bool { return !seen[f] })
		accounts, suspects = a, seen
		if len(a.Faults) == 0 {
			break
		}
	}
	return accounts, nil
}

// place is where a number was found; of two, the one further down the chain counts.
type place uint8

const (
	nowhere place = iota
	shipping
	inPool
	inBatch
	abandoned  // and beyond: abandoned+i for the i-th reason
	conflicted = 254
	linked     = 255
	maxReasons = int(conflicted - abandoned)
)

// pass is one look at everything.
type pass struct {
	space    *Space
	places   [MaxLength + 1][]place // by length and number
	reasons  []string               // of abandonment, in the order met
	beyond   []string               // linked codes that were not reserved when the pass began
	accounts Accounts
}

func (e Evidence) pass(ctx context.Context) (Accounts, error) {
	before, err := e.Books(ctx)
	if err != nil {
		return Accounts{}, err
	}
	if err := e.checkEpoch(ctx, before.Epoch.Number); err != nil {
		return Accounts{}, err
	}
	p := &pass{space: e.Space, accounts: Accounts{Abandoned: map[string]int64{}, Links: map[string]int64{}}}
	for _, s := range before.Spaces {
		p.places[s.Length] = make([]place, s.Next)
	}
	p.addRanges(before)
	if err := p.addPool(ctx, e.Pool); err != nil {
		return Accounts{}, err
	}
	if err := p.addLinks(ctx, e.Links); err != nil {
		return Accounts{}, err
	}
	after, err := e.Books(ctx)
	if err != nil {
		return Accounts{}, err
	}
	p.addRanges(after)
	p.judgeBeyond(after)
	p.sum(before)
	return p.accounts, nil
}

// checkEpoch fails unless the pool that the audit is shown is the ledger's present one:
// in any other, what is missing would look lost.
func (e Evidence) checkEpoch(ctx context.Context, want int64) error {
	if want == 0 {
		return nil // there never was a shared pool
	}
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

// addRanges enters the rows of the ledger.
func (p *pass) addRanges(b Books) {
	for _, r := range b.Ranges {
		where := p.placeOf(r)
		numbers := p.places[r.Length]
		for n := r.Lo; n < min(r.Hi, int64(len(numbers))); n++ {
			numbers[n] = max(numbers[n], where)
		}
	}
}

func (p *pass) placeOf(r BookedRange) place {
	switch r.State {
	case RangeReserved:
		return inPool // of a process, or of nobody: waiting to be handed out either way
	case RangeBatch:
		return inBatch
	case RangeShipping:
		return shipping
	default:
		return p.reason(r.Reason)
	}
}

func (p *pass) reason(reason string) place {
	i := slices.Index(p.reasons, reason)
	if i < 0 && len(p.reasons) == maxReasons {
		i = maxReasons - 1 // under the name of another; there are a handful of reasons
	}
	if i < 0 {
		i = len(p.reasons)
		p.reasons = append(p.reasons, reason)
	}
	return abandoned + place(i)
}

func (p *pass) fault(kind FaultKind, code string) {
	p.accounts.Faults = append(p.accounts.Faults, Fault{kind, code})
}

// at finds the place of a code, nil for one that was not reserved when the pass began.
func (p *pass) at(code string) *place {
	length, n, err := p.space.Number(code)
	if err != nil || n >= int64(len(p.places[length])) {
		return nil
	}
	return &p.places[length][n]
}

// addPool enters what the shared pool has on record.
func (p *pass) addPool(ctx context.Context, read func(context.Context) iter.Seq2[Found, error]) error {
	if read == nil { // no shared pool
		return nil
	}
	for f, err := range read(ctx) {
		if err != nil {
			return err
		}
		at := p.at(f.Code)
		if at == nil {
			continue // reserved since the pass began
		}
		where := inPool
		if f.Batch {
			where = inBatch
		}
		if *at == where { // a batch after the pool is no more than a key on its way
			p.fault(FaultDuplicate, f.Code)
		}
		*at = max(*at, where)
	}
	return nil
}

// addLinks enters the rows of the link store.
func (p *pass) addLinks(ctx context.Context, read func(context.Context) iter.Seq2[Linked, error]) error {
	for l, err := range read(ctx) {
		if err != nil {
			return err
		}
		p.accounts.Links[l.Source]++
		ours := l.Source == SourcePool || l.Source == SourceLedger
		at := p.at(l.Code)
		switch {
		case at == nil && ours:
			p.beyond = append(p.beyond, l.Code)
		case at == nil:
		case !ours:
			*at = max(*at, conflicted)
		default:
			if *at == inPool {
				p.fault(FaultReused, l.Code)
			}
			*at = linked
		}
	}
	return nil
}

// judgeBeyond finds the keys that were not even reserved by the end of the pass.
func (p *pass) judgeBeyond(after Books) {
	for _, code := range p.beyond {
		length, n, err := p.space.Number(code)
		i := slices.IndexFunc(after.Spaces, func(s SpaceBook) bool { return s.Length == length })
		if err != nil || i < 0 || n >= after.Spaces[i].Next {
			p.fault(FaultForeign, code)
		}
	}
}

// sum counts the places. A number that is nowhere was lost with the pool of an
// earlier epoch when it was reserved before the current one began.
func (p *pass) sum(b Books) {
	a := &p.accounts
	for length, numbers := range p.places {
		lost := p.lostBefore(b, length)
		a.Reserved += int64(len(numbers))
		var counts [linked + 1]int64
		for n, where := range numbers {
			counts[where]++
			if where == nowhere && int64(n) >= lost {
				p.fault(FaultMissing, p.space.Code(length, int64(n)))
				counts[nowhere]--
			}
		}
		a.InPool += counts[inPool]
		a.InBatches += counts[inBatch]
		a.Shipping += counts[shipping]
		a.Linked += counts[linked]
		p.abandon(ReasonEpoch, counts[nowhere])
		p.abandon(ReasonConflict, counts[conflicted])
		for i, reason := range p.reasons[:min(len(p.reasons), maxReasons)] {
			p.abandon(reason, counts[abandoned+place(i)])
		}
	}
}

func (p *pass) abandon(reason string, n int64) {
	if n > 0 {
		p.accounts.Abandoned[reason] += n
	}
}

// lostBefore is the number below which a missing one was lost with an epoch.
func (p *pass) lostBefore(b Books, length int) (lost int64) {
	for _, boundary := range b.Boundaries {
		if boundary.Length == length {
			lost = max(lost, boundary.Next)
		}
	}
	return lost
}
