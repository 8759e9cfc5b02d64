// Package controls builds programs that are broken on purpose, for experiments that must
// notice it.
//
// A protection is what keeps one fault from harming users. A control removes one protection
// from a program. An experiment that still passes against such a program proves nothing.
//
// A control is a list of edits of the product's source, which the Go command reads through
// an overlay (see `go help build`, -overlay). The source itself has no code for it. Table
// lists every control. The test of this package fails when an edit no longer applies or no
// longer compiles.
//
// Invariant: this package never writes to the source tree.
package controls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Control removes one protection.
type Control struct {
	Name       string
	Protection string // which protection it removes, as one sentence
	Edits      []Edit
}

// Edit replaces text in a file of the source tree. Old must occur exactly once in the file.
type Edit struct {
	File string // relative to the module's root, with slashes; Go source, Lua or SQL
	Old  string
	New  string
}

// Find returns the control that has the name.
func Find(name string) (Control, error) {
	all := Table()
	i := slices.IndexFunc(all, func(c Control) bool { return c.Name == name })
	if i < 0 {
		return Control{}, fmt.Errorf("unknown control %q: loadtest/controls/table.go lists them", name)
	}
	return all[i], nil
}

// Overlay writes the files that the named controls edit to the directory dir, and the JSON
// file that the flag -overlay of the Go command expects. It returns the path of that file.
func Overlay(ctx context.Context, dir string, names ...string) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	files, err := edited(root, names...)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string, len(files))
	for file, text := range files {
		into := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(into, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = into
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// edited returns the text of each file that the named controls edit, by its name.
func edited(root string, names ...string) (map[string]string, error) {
	files := make(map[string]string)
	for _, name := range names {
		c, err := Find(name)
		if err != nil {
			return nil, err
		}
		for _, e := range c.Edits {
			if _, read := files[e.File]; !read {
				text, err := os.ReadFile(filepath.Join(root, e.File))
				if err != nil {
					return nil, fmt.Errorf("control %s: %w", name, err)
				}
				files[e.File] = string(text)
			}
			if n := strings.Count(files[e.File], e.Old); n != 1 {
				return nil, fmt.Errorf("control %s: %s has %d occurrences of %q, want 1: adapt the edit in loadtest/controls/table.go",
					name, e.File, n, e.Old)
			}
			files[e.File] = strings.Replace(files[e.File], e.Old, e.New, 1)
		}
	}
	return files, nil
}

// moduleRoot returns the directory of the module that the working directory is in.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("controls are built from the source tree: run this inside of it")
	}
	return filepath.Dir(mod), nil
}
