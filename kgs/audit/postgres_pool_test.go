package audit

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/keysource"
	"keypool/kgs/kgstest"
	"keypool/kgs/pgpool"
)

// auditedPool has the tables of an open PostgreSQL pool. Its methods simulate the processes that
// use the pool.
type auditedPool struct{ *kgstest.KeyTables }

func newAuditedPool(t testing.TB) auditedPool {
	t.Helper()
	k := auditedPool{kgstest.NewKeyTables(t)}
	k.refill() // opens the pool
	return k
}

// refill runs one round of a worker that draws the given codes.
func (k auditedPool) refill(codes ...string) {
	k.T.Helper()
	s := pgpool.NewFiller(pgpool.New(k.DB, pgpool.Config{}), &kgstest.DrawnCodes{Codes: codes}, slog.New(slog.DiscardHandler))
	if err := s.Prepare(k.T.Context()); err != nil {
		k.T.Fatal(err)
	}
	if _, err := s.Fill(k.T.Context(), int64(len(codes))); err != nil {
		k.T.Fatal(err)
	}
}

// process returns the pool of a separate process.
func (k auditedPool) process(holder string, reserve bool) *pgpool.Pool {
	k.T.Helper()
	k.AddHolder(holder)
	return pgpool.New(k.Connect(), pgpool.Config{Holder: holder, Reserve: reserve})
}

// auditPool runs the part of the audit that reads the PostgreSQL pool.
func (k auditedPool) auditPool(links ...Linked) Accounts {
	k.T.Helper()
	a := Accounts{Links: map[string]int64{}}
	for _, l := range links {
		a.Links[l.Source]++
	}
	if err := a.AddPostgresPool(k.T.Context(), k.DB, noErrors(links)); err != nil {
		k.T.Fatal(err)
	}
	return a
}

func linkedAs(source string, codes []string) (links []Linked) {
	for _, code := range codes {
		links = append(links, Linked{Code: code, Source: source})
	}
	return links
}

func TestAuditIgnoresUnusedPostgresPool(t *testing.T) {
	t.Parallel()
	k := newAuditedPool(t)
	if a := k.auditPool(linkedAs(kgs.SourceLedger, kgstest.Codes(0, 10))...); a.PostgresPool != nil || a.Faults != nil {
		t.Errorf("accounts %+v, faults %v, want neither", a.PostgresPool, a.Faults)
	}
}

func TestAuditCountsKeysOfPostgresPool(t *testing.T) {
	t.Parallel()
	k := newAuditedPool(t)
	k.refill(kgstest.Codes(0, 100)...)
	deleter, reserver, dead := k.process("a", false), k.process("b", true), k.process("c", true)
	b := kgstest.Take(t, deleter, 10)
	links := linkedAs(kgs.SourcePostgresPool, b.Codes[:6])
	kgstest.Settle(t, deleter, b, b.Codes[8:], b.Codes[6:8])
	b = kgstest.Take(t, reserver, 10)
	links = append(links, linkedAs(kgs.SourcePostgresPool, b.Codes)...)
	kgstest.Settle(t, reserver, b, nil, nil)
	links = append(links, linkedAs(kgs.SourcePostgresPool, kgstest.Take(t, reserver, 10).Codes[:5])...)
	links = append(links, linkedAs(kgs.SourcePostgresPool, kgstest.Take(t, dead, 10).Codes[:5])...)
	links = append(links, linkedAs(kgs.SourceRandom, kgstest.Codes(90, 95))...)
	k.DeclareDead("c", time.Hour)
	k.refill()                          // returns the keys that c had reserved
	k.DrawAgain(kgstest.Codes(0, 3)...) // Take would remove these keys

	a := k.auditPool(links...)
	want := &PostgresPoolAccounts{
		Available: 100 - 10 - 30 + 2 + 10 + 3, Reserved: 10,
		Used: 18, UsedLinked: 16, Unlinked: 2, Unsettled: 10, DrawnAgain: 3,
	}
	if diff := cmp.Diff(want, a.PostgresPool); diff != "" || a.Faults != nil {
		t.Errorf("faults %v, accounts (-want +got):\n%s", a.Faults, diff)
	}
}

// Each injected error must give one fault of the right kind.
func TestAuditOfPostgresPoolReportsInjectedErrors(t *testing.T) {
	t.Parallel()
	k := newAuditedPool(t)
	k.refill(kgstest.Codes(0, 20)...)
	b := kgstest.Take(t, k.process("a", false), 10)
	links := append(linkedAs(kgs.SourcePostgresPool, b.Codes), linkedAs(kgs.SourcePostgresPool, kgstest.Codes(15, 16))...)
	k.Exec(`DELETE FROM used_keys WHERE key = $1`, b.Codes[3])
	want := []Fault{{FaultUnrecorded, b.Codes[3]}, {FaultReused, kgstest.Codes(15, 16)[0]}}
	got := k.auditPool(links...).Faults
	slices.SortFunc(got, func(a, b Fault) int { return strings.Compare(a.Code, b.Code) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// This test has more links than one statement looks up.
func TestAuditOfPostgresPoolLooksUpLinksInBlocks(t *testing.T) {
	t.Parallel()
	k := newAuditedPool(t)
	for range 5 {
		k.refill(drawRandom(t, lookUpAtOnce/2)...)
	}
	p := k.process("a", false)
	used := kgstest.Drain(t, p, lookUpAtOnce)
	a := k.auditPool(linkedAs(kgs.SourcePostgresPool, used)...)
	if a.PostgresPool.UsedLinked != int64(len(used)) || len(used) < 2*lookUpAtOnce || a.Faults != nil {
		t.Errorf("%d keys are used and linked, but the audit found %+v", len(used), a.PostgresPool)
	}
}

func drawRandom(t *testing.T, n int) (codes []string) {
	t.Helper()
	r := keysource.Random{Length: func() int { return 6 }}
	for range n {
		k, err := r.Next(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, k.Code)
	}
	return codes
}
