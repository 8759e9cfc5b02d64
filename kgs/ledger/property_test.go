package ledger_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// TestLedgerAccountsForEveryNumber makes random changes by three processes that crash, freeze and resume.
// After each change it checks that every number that was ever reserved is in exactly one place.
// It also checks that no number was handed out twice.
func TestLedgerAccountsForEveryNumber(t *testing.T) {
	kgstest.OnOpenLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		rapid.Check(t, func(rt *rapid.T) {
			m := newLedgerModel(t, l)
			rt.Repeat(map[string]func(*rapid.T){
				"":          m.check,
				"reserve":   m.reserve,
				"cut":       m.cut,
				"deliver":   m.deliver,
				"settle":    m.settle,
				"crash":     m.crash,
				"release":   m.release,
				"sweep":     m.sweep,
				"openEpoch": m.openEpoch,
				"abandon":   m.abandon,
				"lend":      m.lend,
				"endLease":  m.endLease,
				"expire":    m.expireLeases,
			})
		})
	})
}

// number is one number of one code length.
type number struct {
	length int
	n      int64
}

// outcome is what happened to a number that is abandoned or no longer has a row in the ledger.
type outcome string

const (
	outcomeUsed      outcome = "used"
	outcomePooled    outcome = "in the pool"
	outcomeAbandoned outcome = "abandoned with its epoch, has no row"
	outcomeUnknown   outcome = "abandoned, has a row" // it is unknown whether a link has the number
)

// claim is a range that a process uses as its own. The process may have lost the range already.
type claim struct {
	holder string
	ledger.Reservation
}

// ledgerModel records what the test knows without the ledger: the ranges that each process uses as its own, and the
// outcome of each number.
type ledgerModel struct {
	t        *testing.T
	l        kgstest.LedgerUnderTest
	outcomes map[number]outcome
	taken    map[number]int64 // id of the batch in which each number was handed out
	unseen   map[string]bool  // holders without a current heartbeat
	claims   map[ledger.State][]claim
	leases   []lent // leases that have not ended
	requests int    // requests for leases so far
	epoch    int64
}

// edge is how many numbers are left in the shortest code length. It is small, so that the test
// reaches the next length.
const edge = 300

func newLedgerModel(t *testing.T, l kgstest.LedgerUnderTest) *ledgerModel {
	l.ForgetHighWaterMark() // the test starts with an empty ledger
	l.ForgetHeartbeats()
	l.Exec(t, `DELETE FROM kgs_ranges`)
	l.Exec(t, `DELETE FROM kgs_leases`)
	l.Exec(t, `DELETE FROM kgs_holders`)
	l.Exec(t, `DELETE FROM kgs_epochs`)
	l.Exec(t, `UPDATE kgs_ledger SET epoch = 0, last_range = 0`)
	l.Exec(t, `UPDATE kgs_spaces SET next = CASE length WHEN 3 THEN size - $1 ELSE 0 END`, edge)
	return &ledgerModel{
		t: t, l: l, outcomes: map[number]outcome{}, taken: map[number]int64{},
		unseen: map[string]bool{"a": true, "b": true, "c": true}, claims: map[ledger.State][]claim{},
	}
}

func holder(rt *rapid.T) string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "holder") }

// pick draws a claim in the given state. It skips the step if there is no such claim.
func (m *ledgerModel) pick(rt *rapid.T, state ledger.State) (i int, c claim) {
	if len(m.claims[state]) == 0 {
		rt.Skip("no claim is in the state " + string(state))
	}
	i = rapid.IntRange(0, len(m.claims[state])-1).Draw(rt, "claim")
	return i, m.claims[state][i]
}

func (m *ledgerModel) drop(state ledger.State, i int) {
	m.claims[state] = append(m.claims[state][:i:i], m.claims[state][i+1:]...)
}

func (m *ledgerModel) each(r codespace.Range, f func(number)) {
	for n := r.Lo; n < r.Hi; n++ {
		f(number{r.Length, n})
	}
}

func (m *ledgerModel) reserve(rt *rapid.T) {
	who := holder(rt)
	state := rapid.SampledFrom([]ledger.State{ledger.StateReserved, ledger.StateShipping, ledger.StateBatch}).Draw(rt, "state")
	r, err := m.l.Reserve(m.t.Context(), who, state, 3, rapid.Int64Range(1, 60).Draw(rt, "n"))
	if err != nil {
		rt.Fatal(err)
	}
	m.unseen[who] = false
	m.each(r.Range, func(n number) {
		if m.outcomes[n] != "" {
			rt.Fatalf("%v was reserved again, but its outcome is %s", n, m.outcomes[n])
		}
	})
	m.claims[state] = append(m.claims[state], claim{who, r})
	if state == ledger.StateBatch {
		m.handOut(rt, r)
	}
}

// handOut records that the numbers of a batch are handed out, and checks that they were not handed out before.
func (m *ledgerModel) handOut(rt *rapid.T, batch ledger.Reservation) {
	m.each(batch.Range, func(n number) {
		if m.taken[n] != 0 || m.outcomes[n] != "" {
			rt.Fatalf("%v was handed out in batch %d, but it was already in batch %d, and its outcome is %q", n, batch.ID, m.taken[n], m.outcomes[n])
		}
		m.taken[n] = batch.ID
	})
}

func (m *ledgerModel) cut(rt *rapid.T) {
	i, c := m.pick(rt, ledger.StateReserved)
	batch, rest, err := m.l.Cut(m.t.Context(), c.holder, c.Reservation, rapid.Int64Range(1, 40).Draw(rt, "n"))
	m.drop(ledger.StateReserved, i)
	if errors.Is(err, kgs.ErrFenced) {
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	m.unseen[c.holder] = false
	m.handOut(rt, batch)
	m.claims[ledger.StateBatch] = append(m.claims[ledger.StateBatch], claim{c.holder, batch})
	if rest.Len() > 0 {
		m.claims[ledger.StateReserved] = append(m.claims[ledger.StateReserved], claim{c.holder, rest})
	}
}

// deliver may act for a process whose range another process has taken over.
func (m *ledgerModel) deliver(rt *rapid.T) {
	_, c := m.pick(rt, ledger.StateShipping)
	floor, err := m.l.Deliver(m.t.Context(), c.Reservation)
	if err != nil {
		rt.Fatal(err)
	}
	left := m.claims[ledger.StateShipping][:0:0]
	for _, other := range m.claims[ledger.StateShipping] {
		if other.ID != c.ID {
			left = append(left, other)
		}
	}
	for _, other := range left {
		if other.ID < floor {
			rt.Fatalf("Deliver returned the floor %d, but range %d is below the floor and still shipping", floor, other.ID)
		}
	}
	m.claims[ledger.StateShipping] = left
	m.each(c.Range, func(n number) { m.outcomes[n] = outcomePooled })
}

// settle splits a batch into unused, lost and used numbers. A batch of a dead holder may already
// be abandoned.
func (m *ledgerModel) settle(rt *rapid.T) {
	i, c := m.pick(rt, ledger.StateBatch)
	a := rapid.Int64Range(c.Lo, c.Hi).Draw(rt, "unused up to")
	b := rapid.Int64Range(a, c.Hi).Draw(rt, "lost up to")
	unused, lost, rest := codespace.Range{Length: c.Length, Lo: c.Lo, Hi: a}, codespace.Range{Length: c.Length, Lo: a, Hi: b}, codespace.Range{Length: c.Length, Lo: b, Hi: c.Hi}
	if err := m.l.Settle(m.t.Context(), c.holder, c.ID, nonEmpty(unused), nonEmpty(lost)); err != nil {
		rt.Fatal(err)
	}
	m.drop(ledger.StateBatch, i)
	if m.outcomes[number{c.Length, c.Lo}] == outcomeUnknown {
		return
	}
	m.each(unused, func(n number) { delete(m.taken, n) })
	m.each(lost, func(n number) { m.outcomes[n] = outcomeUnknown })
	m.each(rest, func(n number) { m.outcomes[n] = outcomeUsed })
}

func nonEmpty(r codespace.Range) []codespace.Range {
	if r.Len() == 0 {
		return nil
	}
	return []codespace.Range{r}
}

// crash simulates a crash or a freeze. The claims stay, because a frozen process may still act
// on them.
func (m *ledgerModel) crash(rt *rapid.T) {
	who := holder(rt)
	m.l.DeclareDead(m.t, who)
	m.unseen[who] = true
}

func (m *ledgerModel) release(rt *rapid.T) {
	who := holder(rt)
	if err := m.l.Release(m.t.Context(), who); err != nil {
		rt.Fatal(err)
	}
	m.unseen[who] = true
}

func (m *ledgerModel) sweep(rt *rapid.T) {
	var want int64
	for _, c := range m.claims[ledger.StateBatch] {
		if m.unseen[c.holder] && m.outcomes[number{c.Length, c.Lo}] != outcomeUnknown {
			want += c.Len()
			m.each(c.Range, func(n number) { m.outcomes[n] = outcomeUnknown })
		}
	}
	if got, err := m.l.Sweep(m.t.Context()); err != nil || got != want {
		rt.Fatalf("Sweep abandoned %d numbers, want %d; error %v", got, want, err)
	}
}

func (m *ledgerModel) openEpoch(rt *rapid.T) {
	opened, _, err := m.l.OpenEpoch(m.t.Context(), m.epoch, "pool")
	if err != nil || opened != m.epoch+1 {
		rt.Fatalf("opened epoch %d after %d, error %v", opened, m.epoch, err)
	}
	m.epoch = opened
	for _, c := range m.claims[ledger.StateShipping] {
		m.each(c.Range, func(n number) { m.outcomes[n] = outcomeAbandoned })
	}
	m.claims[ledger.StateShipping] = nil
	for n, f := range m.outcomes {
		if f == outcomePooled {
			m.outcomes[n] = outcomeAbandoned
		}
	}
}

// abandon simulates the sweep of a pool in Redis, which abandons the numbers in the batches of dead holders. It calls
// Abandon once or twice for the lowest number in the pool and the numbers in the pool that follow it without a gap.
func (m *ledgerModel) abandon(rt *rapid.T) {
	numbers := codespace.Range{Length: 3, Lo: codespace.Size(3) - edge}
	for ; numbers.Lo < codespace.Size(3) && m.outcomes[number{3, numbers.Lo}] != outcomePooled; numbers.Lo++ {
	}
	for numbers.Hi = numbers.Lo; m.outcomes[number{3, numbers.Hi}] == outcomePooled; numbers.Hi++ {
	}
	if numbers.Len() == 0 {
		rt.Skip("the pool is empty")
	}
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		if err := m.l.Abandon(m.t.Context(), []codespace.Range{numbers}, kgs.ReasonCrash); err != nil {
			rt.Fatal(err)
		}
	}
	m.each(numbers, func(n number) { m.outcomes[n] = outcomeUnknown })
}

// check verifies that every reserved number is in exactly one place.
func (m *ledgerModel) check(rt *rapid.T) {
	all, err := m.l.Snapshot(m.t.Context())
	if err != nil {
		rt.Fatal(err)
	}
	rows := map[number]ledger.State{}
	for _, r := range all.Rows {
		m.each(r.Range, func(n number) {
			if rows[n] != "" {
				rt.Fatalf("%v is in two rows, with states %s and %s", n, rows[n], r.State)
			}
			rows[n] = r.State
		})
	}
	for _, s := range all.Spaces[:2] {
		reserved := codespace.Range{Length: s.Length, Lo: 0, Hi: s.Next}
		if s.Length == 3 {
			reserved.Lo = s.Size - edge
		}
		m.each(reserved, func(n number) {
			gone := m.outcomes[n] != "" && m.outcomes[n] != outcomeUnknown
			if (rows[n] == "") != gone || (rows[n] == ledger.StateAbandoned) != (m.outcomes[n] == outcomeUnknown) {
				rt.Fatalf("the outcome of %v is %q, but the state of its row is %q", n, m.outcomes[n], rows[n])
			}
			delete(rows, n)
		})
	}
	if len(rows) > 0 {
		rt.Fatalf("rows of numbers that were never reserved: %v", rows)
	}
}
