package kgs

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// auditPool is the part of the audit that is about a PostgresPool.
func (k *keyTables) auditPool(links ...Linked) Accounts {
	k.t.Helper()
	a := Accounts{Links: map[string]int64{}}
	for _, l := range links {
		a.Links[l.Source]++
	}
	if err := a.AddPostgresPool(k.t.Context(), k.db, noErrors(links)); err != nil {
		k.t.Fatal(err)
	}
	return a
}

func linkedAs(source string, codes []string) (links []Linked) {
	for _, code := range codes {
		links = append(links, Linked{code, source})
	}
	return links
}

func TestAuditOfNoPostgresPool(t *testing.T) {
	t.Parallel()
	k := newKeyTables(t)
	if a := k.auditPool(linkedAs(SourceLedger, codes(0, 10))...); a.PostgresPool != nil || a.Faults != nil {
		t.Errorf("%+v, %v", a.PostgresPool, a.Faults)
	}
}

func TestAuditOfPostgresPool(t *testing.T) {
	t.Parallel()
	k := newKeyTables(t)
	k.ship(codes(0, 100)...)
	deleter, reserver, dead := k.process("a", false), k.process("b", true), k.process("c", true)
	b := take(t, deleter, 10)
	links := linkedAs(SourcePostgresPool, b.Codes[:6])
	settle(t, deleter, b, b.Codes[8:], b.Codes[6:8])
	b = take(t, reserver, 10)
	links = append(links, linkedAs(SourcePostgresPool, b.Codes)...)
	settle(t, reserver, b, nil, nil)
	links = append(links, linkedAs(SourcePostgresPool, take(t, reserver, 10).Codes[:5])...)
	links = append(links, linkedAs(SourcePostgresPool, take(t, dead, 10).Codes[:5])...)
	links = append(links, linkedAs(SourceRandom, codes(90, 95))...)
	k.die("c")
	k.ship()                    // takes back what c had reserved
	k.drawAgain(codes(0, 3)...) // dropped when they are taken

	a := k.auditPool(links...)
	want := &PostgresPoolAccounts{
		Available: 100 - 10 - 30 + 2 + 10 + 3, Reserved: 10,
		Used: 18, UsedLinked: 16, Unlinked: 2, Unsettled: 10, DrawnAgain: 3,
	}
	if diff := cmp.Diff(want, a.PostgresPool); diff != "" || a.Faults != nil {
		t.Errorf("faults %v, accounts (-want +got):\n%s", a.Faults, diff)
	}
}

// Each planted error is found, under its own name.
func TestAuditOfPostgresPoolFindsPlantedErrors(t *testing.T) {
	t.Parallel()
	k := newKeyTables(t)
	k.ship(codes(0, 20)...)
	b := take(t, k.process("a", false), 10)
	links := append(linkedAs(SourcePostgresPool, b.Codes), linkedAs(SourcePostgresPool, codes(15, 16))...)
	k.exec(`DELETE FROM used_keys WHERE key = $1`, b.Codes[3])
	want := []Fault{{FaultUnrecorded, b.Codes[3]}, {FaultReused, codes(15, 16)[0]}}
	got := k.auditPool(links...).Faults
	slices.SortFunc(got, func(a, b Fault) int { return strings.Compare(a.Code, b.Code) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// More links than are looked up at a time.
func TestAuditOfPostgresPoolInBlocks(t *testing.T) {
	t.Parallel()
	k := newKeyTables(t)
	for range 5 {
		k.ship(Random{Length: func() int { return 6 }}.draw(t, postgresChunk/2)...)
	}
	p := k.process("a", false)
	used := drain(t, p, postgresChunk)
	a := k.auditPool(linkedAs(SourcePostgresPool, used)...)
	if a.PostgresPool.UsedLinked != int64(len(used)) || len(used) < 2*postgresChunk || a.Faults != nil {
		t.Errorf("of %d used and linked keys the audit found %+v", len(used), a.PostgresPool)
	}
}

func (r Random) draw(t *testing.T, n int) (codes []string) {
	t.Helper()
	for range n {
		k, err := r.Next(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, k.Code)
	}
	return codes
}
