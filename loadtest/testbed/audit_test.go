package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Accounts close when the exit status and the words both say so. It is not parallel: the
// process of another test, forked in between, would keep the script from being run.
func TestAudit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		says   string
		status int
		want   string // in the error
	}{
		{"they close", `{"closes": true, "in_batches": 3}`, 0, ""},
		{"they do not", `{"closes": false, "faults": [{"kind": "twice", "code": "x"}]}`, 1, "by 1 keys"},
		{"they do not, and it succeeds", `{"closes": false}`, 0, "does not say"},
		{"another program", `{}`, 0, "does not say"},
		{"no JSON", "ok", 0, "invalid character"},
		{"it could not", "", 2, "exit status 2"},
	} {
		dir := t.TempDir()
		script := fmt.Sprintf("#!/bin/sh\necho '%s'\nexit %d\n", tt.says, tt.status)
		for _, name := range []string{"shortener", "kgs"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		bed, err := New(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := bed.Audit(t.Context())
		if err := bed.Close(); err != nil {
			t.Error(err)
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q in it", tt.name, err, tt.want)
		}
		if err == nil && got.Held() != 3 {
			t.Errorf("%s: %d keys are held, want 3", tt.name, got.Held())
		}
	}
}
