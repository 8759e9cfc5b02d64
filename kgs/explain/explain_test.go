package explain

import (
	"strings"
	"testing"
	"time"

	"keypool/kgs/codespace"
	"keypool/kgs/keysource"
	"keypool/kgs/ledger"
	"keypool/kgs/pgpool"
)

// snapshotWith returns a ledger in epoch 2 with the given rows. Epoch 1 began at number 100 and
// epoch 2 at number 200.
func snapshotWith(rows ...ledger.Row) ledger.Snapshot {
	boundary := func(epoch, next int64) ledger.Boundary {
		return ledger.Boundary{Epoch: ledger.Epoch{Number: epoch}, Length: 6, Next: next}
	}
	return ledger.Snapshot{
		Epoch: ledger.Epoch{Number: 2}, Spaces: []ledger.SpaceCounter{{Length: 6, Size: codespace.Size(6), Next: 300}},
		Boundaries: []ledger.Boundary{boundary(1, 100), boundary(2, 200)}, Rows: rows,
	}
}

// withOlderList returns s with a second list of the pool, which is still in epoch 1.
func withOlderList(s ledger.Snapshot) ledger.Snapshot {
	s.Boundaries[0].List = 1
	return s
}

func row(lo, hi int64, state ledger.State, holder, reason string) ledger.Row {
	return ledger.Row{Reservation: ledger.Reservation{Range: codespace.Range{Length: 6, Lo: lo, Hi: hi}, ID: 9}, State: state, Holder: holder, Reason: reason}
}

func code(n int64) string { return codespace.Plain().Code(6, n) }

// If no link has a code, the explanation depends on the place of its number, on its row in a PostgreSQL
// pool, or on its form.
func TestExplanationOfCodeWithoutLinkDependsOnPlaceOfNumberOrFormOfCode(t *testing.T) {
	t.Parallel()
	snowflake := "0" + strings.Repeat("1", 10) // the number is about 1.4e16; its time is some weeks after the beginning of 2026
	fields, ok := keysource.ParseSnowflake(snowflake)
	if !ok {
		t.Fatal("the code of this test is not a Snowflake number")
	}
	for name, tt := range map[string]struct {
		evidence Evidence
		status   Status
		reason   string
	}{
		"number above the counter":               {Evidence{Code: code(300)}, NotIssued, "numbers below 300"},
		"number of a length that is not in use":  {Evidence{Code: "zzz"}, NotIssued, "numbers below 0"},
		"number in the pool":                     {Evidence{Code: code(299)}, Reserved, "pool in Redis"},
		"number in a batch":                      {Evidence{Code: code(250), Ledger: snapshotWith(row(250, 260, ledger.StateBatch, "server", ""))}, Reserved, "local batch"},
		"number without a holder":                {Evidence{Code: code(259), Ledger: snapshotWith(row(250, 260, ledger.StateReserved, "", ""))}, Reserved, "No process holds the number"},
		"number on its way to the pool":          {Evidence{Code: code(250), Ledger: snapshotWith(row(250, 260, ledger.StateShipping, "worker", ""))}, Reserved, "pushing"},
		"number lost by a crash":                 {Evidence{Code: code(250), Ledger: snapshotWith(row(250, 260, ledger.StateAbandoned, "", "crash"))}, Abandoned, "crash"},
		"number of an earlier epoch":             {Evidence{Code: code(150)}, Unknown, "unless a server had taken the key in a batch"},
		"number that may be in an older list":    {Evidence{Code: code(150), Ledger: withOlderList(snapshotWith())}, Unknown, "If the key was in this list"},
		"number reserved before the first epoch": {Evidence{Code: code(50)}, Unknown, "audit"},
		"key that waits in PostgreSQL":           {Evidence{Code: code(50), Pool: &pgpool.Record{ID: 1}}, Reserved, "waits in the pool"},
		"key taken from PostgreSQL":              {Evidence{Code: code(50), Pool: &pgpool.Record{ID: 1, UsedAt: time.Now()}}, Unknown, "took the key"},
		"machine id that was never held":         {Evidence{Code: snowflake, Machine: &keysource.Machine{}}, NotIssued, "no process has ever held"},
		"machine id not held for this time":      {Evidence{Code: snowflake, Machine: &keysource.Machine{Until: fields.Time}}, NotIssued, "Not issued yet"},
		"Snowflake number without a link":        {Evidence{Code: snowflake, Machine: &keysource.Machine{Until: fields.Time.Add(1)}}, Unknown, "may have made"},
		"alias that is free":                     {Evidence{Code: "my-link"}, Unknown, "alias"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := tt.evidence
			e.Space = codespace.Plain()
			if e.Ledger.Spaces == nil {
				e.Ledger = snapshotWith()
			}
			x := Explain(e)
			if x.Status != tt.status || !strings.Contains(x.Reason, tt.reason) || x.Link != nil || len(x.NotRecorded) == 0 {
				t.Errorf("%+v, want the status %q and a reason with %q", x, tt.status, tt.reason)
			}
		})
	}
}

// If a link has a code, the explanation depends on the key source of the link. The code may also have the
// form of a code of another key source.
func TestExplanationOfLinkDependsOnKeySource(t *testing.T) {
	t.Parallel()
	for source, tt := range map[string]struct {
		code, origin string
		number       bool
	}{
		"pool":       {code(250), "a number of the ledger", true},
		"ledger":     {code(250), "a number of the ledger", true},
		"redis-incr": {code(250), "a counter in Redis", true},
		"ticket":     {code(250), "the second ticket database", true},
		"random":     {code(250), "a random string", false},
		"alias":      {code(250), "the user chose", false},
		"former":     {code(250), "replaced", false},
		"uuid":       {strings.Repeat("a", 22), "128 random bits", false},
		"hash":       {"um4Hu7", "sha256", false}, // the first characters of the SHA-256 of the URL
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			x := Explain(Evidence{Code: tt.code, Space: codespace.Plain(), Ledger: snapshotWith(), Link: &Link{URL: "https://go.dev/", Source: source}})
			if x.Status != Linked || !strings.Contains(x.Origin, tt.origin) || (x.Number != nil) != tt.number || len(x.NotRecorded) == 0 {
				t.Errorf("the explanation %+v does not fit the key source", x)
			}
			if source == "pool" && (x.Epoch == nil || *x.Epoch != 2 || x.Number.Number != 250) {
				t.Errorf("epoch %v, number %+v; want epoch 2 and number 250", x.Epoch, x.Number)
			}
		})
	}
}
