package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// later is another run of the sample: another commit on more cores, with one claim that
// now holds, one that is slower, one that is new, and one that is missing.
func later() *Report {
	r := sample()
	r.Commit, r.Machine.Cores, r.Interrupted = "a|b*c", 16, false
	r.Experiments = r.Experiments[:4]
	delete(r.Experiments[1].Settings, "KGS_PAGE_BELOW")
	r.Experiments[2].Error = ""
	create, drain := r.Experiments[0].Claims, r.Experiments[1].Claims
	create[1].Observed = ptr(28.4274)
	create[2].Name = "dura|ble"
	drain[0].Predicted, drain[0].Observed = ptr(60), ptr(59)
	drain[1].Outcome, drain[1].Observed = Held, ptr(1.1)
	return r
}

func TestCompareAsText(t *testing.T) {
	t.Parallel()
	const want = `
different              A                                                                         B
commit                 fd22103                                                                   a|b*c
cores                  2                                                                         16
drain KGS_PAGE_BELOW   10%                                                                       –
error of outage        start servers: listen tcp 127.0.0.1:8080: bind: address already in use    –
interrupted            true                                                                      false

   claim                   A             B             predicted           observed A        observed B        B / A
   create no-link-lost     held          held          0 links             0 links           0 links           –
   create p99              inconclusive  inconclusive  10 ms               14.21 ms          28.43 ms          2.000
!  create durable          not judged    –             –                   –                 –                 –
   drain exhaustion        held          held          30.12 s / 60 s      29.94 s           59 s              1.971
!  drain page              failed        held          2 s                 4.4 s             1.1 s             0.250
   drain refill            held          held          1,000 keys/s        1,503,205 keys/s  1,503,205 keys/s  1.000
   outage available        not judged    not judged    –                   –                 –                 –
   fallback attempts-0.946 held          held          18.52 attempts      18.61 attempts    18.61 attempts    1.000
!  bars/create sqlite      failed        –             0.7                 0.46              –                 –
!  bars/create redirects   held          –             0.9                 1.07              –                 –
!  fault/10 lost           held          –             0 links             0 links           –                 –
!  create dura|ble         –             not judged    –                   –                 –                 –

6 of 12 claims with another outcome or in one run only.
`
	var b strings.Builder
	if err := Compare(sample(), later()).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(words(want), words(b.String())); d != "" {
		t.Errorf("%s\n%s", d, b.String())
	}
	// The columns are aligned: a cell of "observed B" starts below its head.
	lines := strings.Split(b.String(), "\n")
	if at := strings.Index(lines[7], "observed B"); !strings.HasPrefix(lines[9][at:], "28.43 ms") {
		t.Errorf("not in columns:\n%s", b.String())
	}
}

// words are the lines of text with single spaces.
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
		"|  | create p99 | inconclusive | inconclusive | 10 ms | 14.21 ms | 28.43 ms | 2.000 |\n",
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
	if len(c.Differences.Rows) > 0 || c.Changed > 0 {
		t.Errorf("%+v", c)
	}
	var b strings.Builder
	if err := c.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "different") || strings.Contains(b.String(), "!") {
		t.Error(b.String())
	}
}
