package ledger_test

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"keypool/kgs/codespace"
	"keypool/kgs/ledger"
)

// lent is a lease with the id of its request.
type lent struct {
	request string
	ledger.Lease
}

// lend requests a lease for a client, or repeats the request of a lease that has not ended.
func (m *ledgerModel) lend(rt *rapid.T) {
	m.requests++
	r := ledger.LeaseRequest{
		Client: "client", ID: fmt.Sprint(m.requests), Length: 3,
		Count: rapid.Int64Range(1, 60).Draw(rt, "n"), Term: time.Hour,
	}
	var before lent
	if len(m.leases) > 0 && rapid.Bool().Draw(rt, "repeat") {
		before = rapid.SampledFrom(m.leases).Draw(rt, "lease")
		r.ID = before.request
	}
	lease, err := m.l.Lend(m.t.Context(), r)
	if err != nil {
		rt.Fatal(err)
	}
	if before.request != "" {
		before.Repeated = true
		if diff := cmp.Diff(before.Lease, lease); diff != "" {
			rt.Fatalf("lease of the repeated request (-first +repeated):\n%s", diff)
		}
		return
	}
	for _, numbers := range lease.Ranges {
		m.handOut(rt, ledger.Reservation{Range: numbers, ID: lease.ID})
	}
	m.leases = append(m.leases, lent{r.ID, lease})
}

// endLease ends a lease. It reports the first part of the first range as unused, and the rest of this range as lost.
func (m *ledgerModel) endLease(rt *rapid.T) {
	if len(m.leases) == 0 {
		rt.Skip("no lease is open")
	}
	i := rapid.IntRange(0, len(m.leases)-1).Draw(rt, "lease")
	lease := m.leases[i]
	m.leases = append(m.leases[:i:i], m.leases[i+1:]...)
	unused, lost := lease.Ranges[0], lease.Ranges[0]
	unused.Hi = rapid.Int64Range(unused.Lo, unused.Hi).Draw(rt, "unused up to")
	lost.Lo = unused.Hi
	if _, err := m.l.EndLease(m.t.Context(), "client", lease.ID, nonEmpty(unused), nonEmpty(lost)); err != nil {
		rt.Fatal(err)
	}
	m.giveUp(lease.Lease)
	m.each(unused, func(n number) { delete(m.outcomes, n); delete(m.taken, n) })
}

func (m *ledgerModel) expireLeases(rt *rapid.T) {
	want := int64(0)
	for _, lease := range m.leases {
		want += codespace.Count(lease.Ranges)
		m.giveUp(lease.Lease)
	}
	m.leases = nil
	m.l.ExpireAll(m.t, 0)
	if got, err := m.l.ExpireLeases(m.t.Context()); err != nil || got != want {
		rt.Fatalf("%d numbers expired, want %d; error %v", got, want, err)
	}
}

func (m *ledgerModel) giveUp(lease ledger.Lease) {
	for _, numbers := range lease.Ranges {
		m.each(numbers, func(n number) { m.outcomes[n] = outcomeUnknown })
	}
}
