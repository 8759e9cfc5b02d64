package golines

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLineCountExcludesCommentsAndBlankLines(t *testing.T) {
	t.Parallel()
	const text = "// Package a.\npackage a\n\n/* two\nlines */\nvar x = 1 // one\nconst s = `a\n\nb`\n\nfunc f() {\n}\n"
	if n, err := Lines([]byte(text)); n != 7 || err != nil {
		t.Errorf("%d lines, error %v; want 7: package, var, three of const, two of func", n, err)
	}
	if _, err := Lines([]byte("package a\nvar s = \"")); err == nil {
		t.Error("Lines gave no error for a string without an end")
	}
}

func TestLineCountExcludesTestFilesAndFailsIfNoFileMatches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": "package a\n", "b.go": "package a\nvar x int\n", "a_test.go": "package a\nvar y int\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Count(dir, "*.go"); n != 3 || err != nil {
		t.Errorf("%d lines, error %v; want 3", n, err)
	}
	for _, pattern := range []string{"c.go", "a_test.go", "["} {
		if _, err := Count(dir, "a.go", pattern); err == nil {
			t.Errorf("no error for %s", pattern)
		}
	}
}
