package report

import (
	"os"
	"testing"
)

func schemaFile(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestRight(t *testing.T) {
	t.Parallel()
	of := func(verdicts ...Verdict) Scenario {
		var s Scenario
		for _, v := range verdicts {
			s.Claims = append(s.Claims, Claim{Verdict: v})
		}
		return s
	}
	broken := of(Held)
	broken.Error = "no server"
	impossible := of(NotJudged, NotJudged)
	impossible.Impossible = "redis-server is not installed"
	for name, tt := range map[string]struct {
		scenarios []Scenario
		right     bool
		says      string
	}{
		"nothing ran":      {nil, false, "No claim was judged"},
		"nothing judged":   {[]Scenario{of(NotJudged)}, false, "No claim was judged"},
		"all held":         {[]Scenario{of(Held, Held), of(Held)}, true, "3 of 3 claims held"},
		"one":              {[]Scenario{of(Held)}, true, "1 of 1 claim held"},
		"some held":        {[]Scenario{of(Held, NotJudged)}, true, "1 of 2 claims held, 1 not judged"},
		"one unjudged":     {[]Scenario{of(Held), of(NotJudged)}, false, "1 of 2 claims held, 1 not judged"},
		"one impossible":   {[]Scenario{of(Held), impossible}, true, "1 of 3 claims held, 2 not judged"},
		"one claims none":  {[]Scenario{of(Held), of()}, true, "1 of 1 claim held"},
		"none claims any":  {[]Scenario{of(), of()}, false, "No claim was judged"},
		"all impossible":   {[]Scenario{impossible}, false, "No claim was judged"},
		"one failed":       {[]Scenario{of(Held, Held), of(Failed)}, false, "2 of 3 claims held, 1 failed"},
		"one has none":     {[]Scenario{of(Held, "")}, false, "1 of 2 claims held, 1 failed"},
		"did not run":      {[]Scenario{of(Held), broken}, false, "2 of 2 claims held"},
		"none of them did": {[]Scenario{of(Failed)}, false, "0 of 1 claim held, 1 failed"},
	} {
		r := &Report{Scenarios: tt.scenarios, Interrupted: true}
		if r.Right() {
			t.Errorf("%s: right although the run was ended early", name)
		}
		r.Interrupted = false
		if got := r.Right(); got != tt.right {
			t.Errorf("%s: right is %v", name, got)
		}
		if got := held(r.Tally()); got != tt.says {
			t.Errorf("%s: %q, want %q", name, got, tt.says)
		}
	}
}

func TestThisMachine(t *testing.T) {
	t.Parallel()
	m := ThisMachine(t.Context())
	if m.OS == unknown || m.OS == "" || m.CPU == "" || m.Cores < 1 || m.MemGiB < 1 || m.Go == "" {
		t.Errorf("%+v", m)
	}
	t.Logf("%+v", m)
}
