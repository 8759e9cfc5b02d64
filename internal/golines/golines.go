// Package golines counts lines of Go code.
package golines

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// Count reads the Go files below root that match the patterns, and counts their lines. [filepath.Glob] defines the
// syntax of a pattern. Test files, blank lines and lines that contain only a comment do not count. Count returns an
// error if a pattern matches no file, or only test files.
func Count(root string, patterns ...string) (total int, err error) {
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return 0, fmt.Errorf("count lines: %w", err)
		}
		found := false
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			found = true
			text, err := os.ReadFile(file)
			if err != nil {
				return 0, fmt.Errorf("count lines: %w", err)
			}
			n, err := Lines(text)
			if err != nil {
				return 0, fmt.Errorf("count lines: %s: %w", file, err)
			}
			total += n
		}
		if !found {
			return 0, fmt.Errorf("count lines: no file %s in %s", pattern, root)
		}
	}
	return total, nil
}

// Lines counts the lines of a Go source text that contain code.
func Lines(text []byte) (n int, err error) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	var failed scanner.ErrorList
	s.Init(file, text, func(at token.Position, why string) { failed.Add(at, why) }, 0)
	last := 0 // last line that counts
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return n, failed.Err()
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue // the scanner inserted this semicolon
		}
		first := file.Line(pos)
		end := first + strings.Count(literal, "\n")
		n += max(0, end-max(first-1, last))
		last = max(last, end)
	}
}
