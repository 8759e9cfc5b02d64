package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TryAudit returns an error if the exit status contradicts the output. This test is not parallel, because another
// test could fork a process while the script is open for writing. The process would inherit the open file, and the
// system does not execute a file that a process has open for writing.
func TestTryAuditFailsIfStatusAndOutputDisagree(t *testing.T) {
	for _, tt := range []struct {
		name    string
		output  string
		status  int
		problem string // part of the problem
		err     string // part of the error
	}{
		{"the accounts close", `{"closes": true, "in_batches": 3, "abandoned": {"crash": 2, "epoch": 1}}`, 0, "", ""},
		{"the accounts do not close", `{"closes": false, "fault_counts": {"twice": 1}, "faults": [{"kind": "twice", "code": "x"}]}`, 1, "twice 1", ""},
		{"the accounts do not close, but the status is 0", `{"closes": false}`, 0, "", "does not say"},
		{"the accounts close, but the status is 1", `{"closes": true}`, 1, "", "exit status 1"},
		{"the output of another program", `{}`, 0, "", "does not say"},
		{"the output is not JSON", "ok", 0, "", "invalid character"},
		{"the audit fails", "", 2, "", "exit status 2"},
	} {
		r := newRun(t)
		r.dir = t.TempDir()
		script := fmt.Sprintf("#!/bin/sh\necho '%s'\nexit %d\n", tt.output, tt.status)
		if err := os.WriteFile(filepath.Join(r.dir, "shortener"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := TryAudit(r)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: TryAudit returns the error %v, want an error that contains %q", tt.name, err, tt.err)
			continue
		}
		if err != nil {
			continue
		}
		if problem := got.Problem(); (problem == "") != (tt.problem == "") || !strings.Contains(problem, tt.problem) {
			t.Errorf("%s: Problem returns %q, want a text that contains %q", tt.name, problem, tt.problem)
		}
		if got.Closes && (got.Held() != 3 || got.Lost() != 3) {
			t.Errorf("%s: %d keys held and %d lost, want 3 and 3", tt.name, got.Held(), got.Lost())
		}
	}
}
