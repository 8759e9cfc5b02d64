package operate

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/kgs/explain"
)

func TestExplanationIsPrintedAsTable(t *testing.T) {
	t.Parallel()
	x := explain.Explanation{
		Code: "00000A", Status: explain.Linked, Reason: "A link has the code.", KeySource: "pool", Origin: "a number of the ledger",
		Number: &explain.Number{Length: 6, Number: 10, Size: 56_800_235_584}, Epoch: new(int64),
		Range:       &explain.Range{ID: 5, Lo: 0, Hi: 100, State: "batch", Holder: "server-1"},
		Link:        &explain.Link{URL: "https://go.dev/", State: "live", Version: 1, CreatedAt: time.Unix(0, 0)},
		NotRecorded: []string{"the weather"},
	}
	var got bytes.Buffer
	if err := PrintExplanation(&got, x, false); err != nil {
		t.Fatal(err)
	}
	const want = `
code          00000A
status        linked
reason        A link has the code.
source        pool: a number of the ledger
number        10 of 56,800,235,584 codes of 6 characters
epoch         0 (before the first shared pool)
range         5: numbers 0 to 99, batch
holder        server-1
link          https://go.dev/
state         live, fixed, version 1, owner none
created       1970-01-01T00:00:00Z, expires never, deleted never
not recorded  the weather
`
	if diff := cmp.Diff(want[1:], got.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
