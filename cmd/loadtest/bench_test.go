package main

import (
	"strings"
	"testing"
)

// What is not measured at all is no success, and says why.
func TestBenchExitStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{"no such group", []string{"bench", "--only=redirekt"}, 2, "redirect"},
		{"no rounds", []string{"bench", "--rounds=0"}, 2, "round"},
		{"no programs", []string{"bench", "--only=redirect", "--programs", t.TempDir()}, 2, "make build"},
		{"bare without an address", []string{"bench", "bare"}, 2, "--listen"},
	}
	for _, tt := range tests {
		var stdout, stderr strings.Builder
		if status := run(tt.args, &stdout, &stderr); status != tt.status || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: exit status %d, want %d with %q; it said:\n%s", tt.name, status, tt.status, tt.stderr, &stderr)
		}
	}
}
