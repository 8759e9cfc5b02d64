package kgs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A client's link in the same database is the end of its key; one that is of another
// ledger by its number is an accident, as a random code is.
func TestAuditOfLeases(t *testing.T) {
	onLedgers(t, func(t *testing.T, l books) {
		space, err := l.Open(t.Context(), LedgerConfig{Permute: true})
		if err != nil {
			t.Fatal(err)
		}
		s := &scene{books: l, space: space}
		over := l.lend(t, "a", "1", 40)
		l.lend(t, "a", "2", 40)
		l.endLease(t, "a", over.ID, []Run{{3, 30, 40}}, []Run{{3, 20, 30}}) // [0, 20) are the client's
		s.link(0, 10, SourceKGS)
		s.link(20, 21, SourceKGS) // lost, and yet linked
		s.link(30, 31, SourceKGS) // returned, so it must be another ledger's
		s.link(70, 80, SourceKGS) // of a lease that is alive
		s.link(5000, 5010, SourceKGS)
		got, err := s.audit(t)
		if err != nil {
			t.Fatal(err)
		}
		want := EpochAccounts{
			Reserved:  80,
			InPool:    map[string]int64{BooksOfLedger: 9},
			InBatches: map[string]int64{BooksOfLedger: 30},
			Linked:    map[string]int64{SourceKGS: 21},
			Abandoned: map[string]int64{ReasonClient: 10, ReasonLostReply: 9, ReasonConflict: 1},
		}
		if diff := cmp.Diff([]EpochAccounts{want}, got.Epochs); diff != "" || len(got.Faults) > 0 {
			t.Errorf("faults %v, accounts (-want +got):\n%s", got.Faults, diff)
		}
	})
}
