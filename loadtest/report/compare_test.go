package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// later is another run of the sample: another commit on more cores, with one claim that
// now holds, one that is slower, one that is new, and one that is gone.
func later() *Report {
	r := sample()
	r.Commit, r.Machine.Cores, r.Interrupted = "a|b*c", 16, false
	r.Settings["FALLBACK"] = "ledger"
	delete(r.Scenarios[1].Settings, "KGS_PAGE_BELOW")
	r.Scenarios[2].Error = ""
	create, drain := r.Scenarios[0].Claims, r.Scenarios[1].Claims
	create[1].Observed = ptr(8.4)
	create[2].Name = "dura|ble"
	drain[0].Predicted, drain[0].Observed = ptr(60), ptr(59)
	drain[1].Verdict, drain[1].Observed = Held, ptr(1.1)
	return r
}

func TestCompareAsText(t *testing.T) {
	t.Parallel()
	const want = `
DIFFERENT              A                                                                         B
commit                 fd22103                                                                   a|b*c
ended                  early                                                                     by itself
cores                  2                                                                         16
FALLBACK               random                                                                    ledger
drain KGS_PAGE_BELOW   10%                                                                       –
outage error           start servers: listen tcp 127.0.0.1:8080: bind: address already in use    –

   claim                   A           B           predicted           observed A        observed B        B / A
   create no-link-lost     held        held        0 links             0 links           0 links           –
   create p99              held        held        10 ms               4.214 ms          8.4 ms            1.993
!  create durable          not judged  –           –                   –                 –                 –
   drain exhaustion        held        held        30.12 s / 60 s      29.94 s           59 s              1.971
!  drain page              failed      held        2 s                 4.4 s             1.1 s             0.250
   drain refill            held        held        1,000 keys/s        1,503,205 keys/s  1,503,205 keys/s  1.000
   fallback attempts-0.946 held        held        18.52 attempts      18.61 attempts    18.61 attempts    1.000
!  create dura|ble         –           not judged  –                   –                 –                 –
`
	var b strings.Builder
	if err := Compare(sample(), later()).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(words(want), words(b.String())); d != "" {
		t.Errorf("%s\n%s", d, b.String())
	}
	// In columns: what stands under "observed B" begins where that does.
	lines := strings.Split(b.String(), "\n")
	if at := strings.Index(lines[8], "observed B"); !strings.HasPrefix(lines[10][at:], "8.4 ms") {
		t.Errorf("not in columns:\n%s", b.String())
	}
}

// words are the lines without their spaces' width.
func words(text string) []string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestCompareAsMarkdown(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Compare(sample(), later()).WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| different | A | B |\n|---|---|---|\n| commit | fd22103 | a\\|b\\*c |\n",
		"| drain KGS\\_PAGE\\_BELOW | 10% | – |\n",
		"\n\n|  | claim | A | B | predicted | observed A | observed B | B / A |\n|---|---|---|---|---|---|---|---|\n",
		"|  | create p99 | held | held | 10 ms | 4.214 ms | 8.4 ms | 1.993 |\n",
		"| ! | create dura\\|ble | – | not judged | – | – | – | – |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestCompareWithItself(t *testing.T) {
	t.Parallel()
	c := Compare(sample(), sample())
	if len(c.Differ) > 0 {
		t.Errorf("differences: %v", c.Differ)
	}
	for _, claim := range c.Claims {
		if claim.Changed() {
			t.Errorf("%s %s has changed", claim.Scenario, claim.Name)
		}
	}
	var b strings.Builder
	if err := c.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "DIFFERENT") || strings.Contains(b.String(), "!") {
		t.Error(b.String())
	}
}
