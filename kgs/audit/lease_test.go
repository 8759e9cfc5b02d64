package audit

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
	"keypool/kgs/ledger"
)

// A link with the source SourceKGS has a key that a client took from a key service. If the number of the code is in a
// lease of this ledger, the link shows that the client used the key. If the number was never leased or was returned, the
// key comes from another ledger, and only its code is the same. Such a link conflicts with the number, as a link with a
// random code does.
func TestAuditCountsKeysOfLeases(t *testing.T) {
	kgstest.OnLedgers(t, func(t *testing.T, l kgstest.LedgerUnderTest) {
		space, err := l.Open(t.Context(), ledger.Config{Permute: true})
		if err != nil {
			t.Fatal(err)
		}
		s := &fixture{LedgerUnderTest: l, space: space}
		over := l.MustLend(t, "a", "1", 40)
		l.MustLend(t, "a", "2", 40)
		// The client keeps the numbers [0, 20).
		l.MustEndLease(t, "a", over.ID, []codespace.Range{{Length: 3, Lo: 30, Hi: 40}}, []codespace.Range{{Length: 3, Lo: 20, Hi: 30}})
		s.link(0, 10, kgs.SourceKGS)
		s.link(20, 21, kgs.SourceKGS) // the client reported the key as lost, but it has a link
		s.link(30, 31, kgs.SourceKGS) // the key was returned, so the key of the link comes from another ledger
		s.link(70, 80, kgs.SourceKGS) // these keys are in an open lease
		s.link(5000, 5010, kgs.SourceKGS)
		got, err := s.audit(t)
		if err != nil {
			t.Fatal(err)
		}
		want := EpochAccounts{
			Reserved:  80,
			InPool:    map[string]int64{RecordOfLedger: 9},
			InBatches: map[string]int64{RecordOfLedger: 30},
			Linked:    map[string]int64{kgs.SourceKGS: 21},
			Abandoned: map[string]int64{kgs.ReasonClient: 10, kgs.ReasonLostReply: 9, kgs.ReasonConflict: 1},
		}
		if diff := cmp.Diff([]EpochAccounts{want}, got.Epochs); diff != "" || len(got.Faults) > 0 {
			t.Errorf("faults %v, accounts (-want +got):\n%s", got.Faults, diff)
		}
	})
}
