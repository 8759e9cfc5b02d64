package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"keypool/internal/testenv"
	"keypool/kgs/explain"
	"keypool/kgs/ledger"
	"keypool/web/admin"
)

// explained runs `shortener explain --json`.
func explained(t *testing.T, database, code string) (x explain.Explanation) {
	t.Helper()
	status, stdout, stderr := runShortener(t, "--database-url="+database, "--kgs-permute=false", "explain", "--json", code)
	if err := json.Unmarshal([]byte(stdout), &x); status != 0 || err != nil {
		t.Fatalf("explain %s: exit status %d, %v, stdout %q, stderr %q", code, status, err, stdout, stderr)
	}
	return x
}

func TestExplainWorksWhileServerRuns(t *testing.T) {
	t.Parallel()
	for engine, url := range map[string]string{"sqlite": sqliteURL(t), "postgres": testenv.PostgresURL(t)} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			r := start(t, settings(t, url, "", "--kgs-permute=false", "--key-source=ledger", "--kgs-batch-min=20"))
			r.await("two batches", func(s admin.Status) bool { return *s.LocalKeys == 40 })
			code := r.shorten("https://go.dev/")
			x := explained(t, url, code)
			if x.Status != explain.Linked || x.KeySource != "ledger" || x.Link.URL != "https://go.dev/" || x.Link.State != "live" || x.Epoch == nil {
				t.Errorf("the explanation of a link of the running server is %+v", x)
			}
			if x.Range == nil || x.Range.State != ledger.StateBatch || x.Range.Holder == "" || x.Range.Lo != 0 || x.Range.Hi != 20 {
				t.Errorf("range %+v, want the batch of the running server", x.Range)
			}
			if got := explained(t, url, "00000J"); got.Status != explain.Reserved || got.Range == nil || got.Range.Holder != x.Range.Holder {
				t.Errorf("the explanation of a key of the same batch is %+v, want a reserved number with the same holder", got)
			}
			if got := explained(t, url, "zzzzzz"); got.Status != explain.NotIssued || !strings.Contains(got.Reason, "numbers below 40") {
				t.Errorf("the explanation of a number above the counter is %+v, want a number that was not issued", got)
			}
			if status, output := command(t, url, "--kgs-permute=false", "delete", code); status != 0 {
				t.Fatal(output)
			}
			r.stop()
			x = explained(t, url, code)
			if x.Link.State != "deleted" || x.Range != nil || !strings.Contains(strings.Join(x.NotRecorded, "\n"), "the batch and the server") {
				t.Errorf("the explanation of a deleted link of a settled batch is %+v", x)
			}
		})
	}
}

func TestExplainDescribesCodesOutsideTheLedger(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	link := func(source string, flags ...string) explain.Explanation {
		r := start(t, settings(t, url, "", append(flags, "--kgs-permute=false", "--fallback=none", "--key-source="+source)...))
		defer r.stop()
		return explained(t, url, r.shortenPatiently("https://go.dev/"))
	}
	before := time.Now()
	x := link("snowflake", "--machine-id=7")
	if s := x.Snowflake; s == nil || s.Machine != 7 || s.Holder == "" || s.Time.Before(before.Add(-time.Second)) || s.Time.After(time.Now()) {
		t.Errorf("the explanation of a code of the key source snowflake is %+v", x)
	}
	if x = link("hash"); !strings.Contains(x.Origin, "sha256") {
		t.Errorf("the explanation of a code of the key source hash is %+v", x)
	}
	if x = link("ticket"); !strings.Contains(x.Origin, "the first ticket database") || x.Number == nil || x.Number.Number%2 != 1 {
		t.Errorf("the explanation of a code of the key source ticket is %+v", x)
	}
	if x = link("postgres-pool", "--kgs-take=reserve"); x.Pool == nil || !x.Pool.Reserved || x.Pool.Holder == "" {
		t.Errorf("the explanation of a code of the key source postgres-pool is %+v", x)
	}
}

func TestExplainRefusesInvalidCodes(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"", "a b", "a/b", strings.Repeat("x", 1000)} {
		status, stdout, stderr := runShortener(t, "--database-url="+sqliteURL(t), "explain", code)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "cannot be a code") {
			t.Errorf("explain %q: exit status %d, stdout %q, stderr %q; want 2 and one line", code, status, stdout, stderr)
		}
	}
}
