package kgs

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// auditedPool is the tables of a PostgresPool, empty and open, and what processes do to them.
type auditedPool struct{ *keyTables }

func newAuditedPool(t testing.TB) auditedPool {
	t.Helper()
	k := auditedPool{newKeyTables(t)}
	k.ship() // opens the pool
	return k
}

// ship makes one round of the batch job, which draws the given codes.
func (k auditedPool) ship(codes ...string) {
	k.t.Helper()
	s := NewPostgresShipper(NewPostgresPool(k.db, PostgresPoolConfig{}), &drawnCodes{codes}, slog.New(slog.DiscardHandler))
	if err := s.Prepare(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
	if _, err := s.Ship(k.t.Context(), int64(len(codes))); err != nil {
		k.t.Fatal(err)
	}
}

// process is the pool as a process of its own has it.
func (k auditedPool) process(holder string, reserve bool) *PostgresPool {
	k.t.Helper()
	k.addHolder(holder)
	return NewPostgresPool(k.connect(), PostgresPoolConfig{Holder: holder, Reserve: reserve})
}

// auditPool is the part of the audit that is about a PostgresPool.
func (k auditedPool) auditPool(links ...Linked) Accounts {
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
	k := newAuditedPool(t)
	if a := k.auditPool(linkedAs(SourceLedger, codes(0, 10))...); a.PostgresPool != nil || a.Faults != nil {
		t.Errorf("%+v, %v", a.PostgresPool, a.Faults)
	}
}

func TestAuditOfPostgresPool(t *testing.T) {
	t.Parallel()
	k := newAuditedPool(t)
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
	k.die("c", time.Hour)
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
	k := newAuditedPool(t)
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
	k := newAuditedPool(t)
	for range 5 {
		k.ship(drawRandom(t, lookUpAtOnce/2)...)
	}
	p := k.process("a", false)
	used := drain(t, p, lookUpAtOnce)
	a := k.auditPool(linkedAs(SourcePostgresPool, used)...)
	if a.PostgresPool.UsedLinked != int64(len(used)) || len(used) < 2*lookUpAtOnce || a.Faults != nil {
		t.Errorf("of %d used and linked keys the audit found %+v", len(used), a.PostgresPool)
	}
}

func drawRandom(t *testing.T, n int) (codes []string) {
	t.Helper()
	r := Random{Length: func() int { return 6 }}
	for range n {
		k, err := r.Next(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, k.Code)
	}
	return codes
}
