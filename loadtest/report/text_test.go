package report

import (
	"strings"
	"testing"
)

func TestTextHasExperimentsThenFindingsThenVerdict(t *testing.T) {
	t.Parallel()
	const want = `FAIL          drain: The pool drains, alerts are sent, and the worker starts again: 2 of 3 claims hold, 1 failed; 1 of 2 controls were caught (1 min 10 s)
ERROR         outage: Redis is killed: 0 of 1 claim holds, 1 not judged (12 s)

Findings, each with its reason:
FAIL drain, page: The service signals page within two seconds after the pool has fallen below 10 %.
    The pool fell below 3,000 keys at 26.9 s; the webhook was called at 31.3 s.
FAIL drain, without the restart signal: The control was not caught. In its run, these claims must fail: "exhaustion".
    the claim held: 29.8 s observed
ERROR outage: The experiment did not run to its end.
    start servers: listen tcp 127.0.0.1:8080: bind: address already in use

FAIL: 2 of 4 claims hold, 1 failed, 1 not judged; 1 of 2 controls were caught. The run was interrupted. The report contains what ran until then. It took 3 min 12 s.
`
	r := sample()
	r.Experiments = r.Experiments[1:3]
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("the text is\n%s\nwant\n%s", &b, want)
	}
}

func TestSummaryExplainsFailedSpeedClaims(t *testing.T) {
	t.Parallel()
	const advice = "Without --strict, a speed claim that fails does not make the run fail."
	r := &Report{Experiments: []Experiment{experiment(claim(Speed, Failed))}}
	if got := r.Summary(); !strings.Contains(got, advice) {
		t.Errorf("the summary %q does not contain the advice %q", got, advice)
	}
	r.Strict = true
	if got := r.Summary(); strings.Contains(got, advice) {
		t.Errorf("the summary of a strict run contains the advice: %q", got)
	}
}

func TestMarkdownHasVerdictClaimsTablesAndNotes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Markdown(&b, sample()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"## Keypool load test, 2026-11-24, `bin/loadtest run", "**FAIL**: 5 of 9 claims hold, 1 failed, 1 inconclusive, 2 not judged; 1 of 2 bars hold, 1 missed",
		"Commit fd22103; 2 cores of AMD EPYC", "PostgreSQL 15.14, Redis 7.0.15.", "in loadtest/controls/table.go.\n\n| row | fault | result |\n|---|---|---|\n", "\n\n### A thousand creations a second",
		"| claim | bound or prediction | observed | ratio | outcome | figures |\n|---|",
		"| Creations on SQLite reach 0.7 of a bare server. | 0.7 | 0.46 | 0.657 | MISSES | 28,800/s beside 63,100/s. |\n",
		"| Cached redirects reach 0.9 of a bare server. | 0.9 | 1.07 | 1.189 | HOLDS | 52,500/s beside 50,600/s. |\n",
		"| FAIL | The pool fell", "| INCONCLUSIVE | The median", "| NOT JUDGED | The server runs elsewhere",
		"- **FAIL** drain, without the restart signal: ", "- **ERROR** outage: ", "\n\n- The load generator",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the Markdown does not contain %q:\n%s", want, text)
		}
	}
}

func TestTableIsWrittenAsMarkdown(t *testing.T) {
	t.Parallel()
	table := Table{Title: "Two of them", Columns: []string{"what", "how many"}, Rows: [][]string{{"a|b*c", "1"}, {"d", "100"}}}
	if got, want := table.markdown(), "Two of them:\n\n| what | how many |\n|---|---|\n| a\\|b\\*c | 1 |\n| d | 100 |\n"; got != want {
		t.Errorf("the table is %q, want %q", got, want)
	}
}
