package operate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs"
	"keypool/kgs/audit"
)

func TestAuditReportShowsEpochsAndFaults(t *testing.T) {
	t.Parallel()
	accounts := audit.Accounts{
		Links: map[string]int64{"alias": 2, kgs.SourcePool: 1234},
		Epochs: []audit.EpochAccounts{
			{Epoch: 1, Reserved: 20_000, Linked: map[string]int64{kgs.SourcePool: 1000},
				Abandoned: map[string]int64{kgs.ReasonEpoch: 18_990, kgs.ReasonCrash: 10}},
			{Epoch: 2, Reserved: 10_000, InPool: map[string]int64{audit.RecordOfPool: 9000, audit.RecordOfLedger: 600},
				InBatches: map[string]int64{audit.RecordOfPool: 165}, Linked: map[string]int64{kgs.SourcePool: 234}, Missing: 1},
		},
		Faults:      []audit.Fault{{Kind: audit.FaultMissing, Code: "fdMx0H"}},
		FaultCounts: map[audit.FaultKind]int64{audit.FaultMissing: 1},
	}
	var got bytes.Buffer
	if err := PrintAccounts(&got, accounts, false); err != nil {
		t.Fatal(err)
	}
	const want = `
                   in pool:        in batches:  linked:  abandoned:
  epoch  reserved    ledger  pool         pool     pool       crash  epoch  missing
      1     20000         0     0            0     1000          10  18990        0
      2     10000       600  9000          165      234           0      0        1
  total     30000       600  9000          165     1234          10  18990        1
Links by source: 2 alias, 1234 pool.
The accounts do not close. Faults: 1.
  fdMx0H is missing: reserved, but not linked, not in a pool or batch, and not abandoned
`
	if diff := cmp.Diff(want[1:], got.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestAuditReportCountsFaultsThatAreNotDisplayed(t *testing.T) {
	t.Parallel()
	listed := make([]audit.Fault, audit.MaxListed)
	for name, tt := range map[string]struct {
		accounts audit.Accounts
		want     string
	}{
		"more than the report shows": {
			audit.Accounts{Faults: listed[:25], FaultCounts: map[audit.FaultKind]int64{audit.FaultMissing: 25}},
			"  and 5 more; --json lists all\n"},
		"more than the audit lists": {
			audit.Accounts{Faults: listed, FaultCounts: map[audit.FaultKind]int64{audit.FaultMissing: 5000, audit.FaultForeign: 1}},
			"  and 4981 more (all faults by kind: 1 foreign, 5000 missing); --json lists up to 1000 of each kind\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			if err := PrintAccounts(&got, tt.accounts, false); err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(got.String(), tt.want) {
				t.Errorf("report\n%s\nwant the last line\n%s", got.String(), tt.want)
			}
		})
	}
}

func TestAuditReportOfEmptyDatabaseSaysAccountsClose(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if err := PrintAccounts(&got, audit.Accounts{}, false); err != nil {
		t.Fatal(err)
	}
	const want = `

  epoch  reserved
  total         0
No links.
The accounts close: every reserved number is in exactly one place.
`
	if diff := cmp.Diff(want[1:], got.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
