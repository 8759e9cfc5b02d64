package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// later returns a later run of the experiments of sample, with a different commit and more cores.
// In this run, one claim that fails in sample holds, some claims have different figures, one claim
// has a different name, and two experiments are missing.
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

func TestCompareMarksChangedOutcomes(t *testing.T) {
	t.Parallel()
	const want = `
A: 2026-11-24, 'bin/loadtest run --rate 1000 --duration 30s create drain outage fallback', commit fd22103; 2 cores of AMD EPYC 7763 64-Core Processor, 8 GiB, Debian 12.9, Linux 6.1.0-28-amd64, go1.26.0 linux/amd64, PostgreSQL 15.14, Redis 7.0.15.
B: 2026-11-24, 'bin/loadtest run --rate 1000 --duration 30s create drain outage fallback', commit a|b*c; 16 cores of AMD EPYC 7763 64-Core Processor, 8 GiB, Debian 12.9, Linux 6.1.0-28-amd64, go1.26.0 linux/amd64, PostgreSQL 15.14, Redis 7.0.15.

   claim                   A             B             observed A        observed B        B / A
   create no-link-lost     held          held          0 links           0 links           –
   create p99              inconclusive  inconclusive  14.21 ms          28.43 ms          2.000
!  create durable          not judged    –             –                 –                 –
   drain exhaustion        held          held          29.94 s           59 s              1.971
!  drain page              failed        held          4.4 s             1.1 s             0.250
   drain refill            held          held          1,503,205 keys/s  1,503,205 keys/s  1.000
   outage available        not judged    not judged    –                 –                 –
   fallback attempts-0.946 held          held          18.61 attempts    18.61 attempts    1.000
!  bars/create sqlite      failed        –             0.46              –                 –
!  bars/create redirects   held          –             1.07              –                 –
!  fault/10 lost           held          –             0 links           –                 –
!  create dura|ble         –             not judged    –                 –                 –

6 of 12 claims have different outcomes or are in only one run.
`
	var b strings.Builder
	if err := Compare(&b, sample(), later()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(words(want), words(strings.ReplaceAll(b.String(), "`", "'"))); d != "" {
		t.Errorf("the comparison differs (-want +got):\n%s\nthe whole comparison:\n%s", d, b.String())
	}
	// A cell of the column "observed B" starts below the header of the column.
	lines := strings.Split(b.String(), "\n")
	if at := strings.Index(lines[3], "observed B"); !strings.HasPrefix(lines[5][at:], "28.43 ms") {
		t.Errorf("the columns are not aligned:\n%s", b.String())
	}
}

// words returns the lines of text with single spaces between words.
func words(text string) []string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestCompareOfEqualReportsMarksNothing(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Compare(&b, sample(), sample()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\n0 of 11 claims") || strings.Contains(b.String(), "!") {
		t.Errorf("the comparison of a report with itself has changes:\n%s", b.String())
	}
}
