// Package controls builds programs that are broken on purpose.
//
// A protection is code that keeps one fault from harming users. A control removes one protection from a program. A
// claim of an experiment, or a unit test, must then fail. If it does not fail, the experiment or the test does not
// notice the fault and proves nothing.
//
// In this package, a control is a list of edits of the product's source. The Go command compiles the edited files in
// place of the source files (see -overlay in `go help build`). The source therefore contains no code for controls.
// [Table] lists the edits of every control. A test of this package fails if the text that an edit replaces is not in
// its file, or if the result does not compile.
//
// Invariant: this package never writes to the source tree.
package controls

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"keypool/internal/testenv"
)

// Edit is a part of a control. It replaces text in a file of the source tree. Old must occur exactly once in the file.
type Edit struct {
	Control  string
	File     string // relative to the module's root, with slashes; Go source, Lua or SQL
	Old, New string
}

// Find returns the edits of the named control.
func Find(name string) ([]Edit, error) {
	edits := slices.DeleteFunc(Table(), func(e Edit) bool { return e.Control != name })
	if len(edits) == 0 {
		return nil, fmt.Errorf("unknown control %q: loadtest/controls/table.go lists all controls", name)
	}
	return edits, nil
}

// Builder builds the programs with controls. It builds each combination of controls only once. It may be used
// concurrently; the builds run one after the other.
type Builder struct {
	dir string

	mu    sync.Mutex
	built map[string]bool // the directories whose programs are built
}

// NewBuilder returns a Builder that keeps the programs in the directory dir, which belongs
// to the caller.
func NewBuilder(dir string) *Builder { return &Builder{dir: dir, built: make(map[string]bool)} }

// Build builds shortener and kgs with failpoints (build tag drill) and with the named controls, and returns their
// directory. If without is empty, the programs have every protection. A build takes seconds.
func (b *Builder) Build(ctx context.Context, without ...string) (dir string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir = filepath.Join(b.dir, "without-"+cmp.Or(strings.Join(without, "-"), "nothing"))
	if b.built[dir] {
		return dir, nil
	}
	source := filepath.Join(dir, "source")
	if err := os.MkdirAll(source, 0o700); err != nil {
		return "", err
	}
	overlay, err := Overlay(ctx, source, without...)
	if err != nil {
		return "", err
	}
	if err := testenv.Build(ctx, dir, "-tags", "drill", "-overlay", overlay, "keypool/cmd/shortener", "keypool/cmd/kgs"); err != nil {
		return "", err
	}
	b.built[dir] = true
	return dir, nil
}

// Overlay writes the overlay of the named controls to the directory dir, as [WriteOverlay] does.
func Overlay(ctx context.Context, dir string, names ...string) (string, error) {
	root, err := ModuleRoot(ctx)
	if err != nil {
		return "", err
	}
	files, err := edited(root, names...)
	if err != nil {
		return "", err
	}
	return WriteOverlay(root, dir, files)
}

// WriteOverlay writes edited source files to the directory dir. The map files contains the text of
// each file, by the path of the file below root. WriteOverlay also writes the JSON file that the
// flag -overlay of the Go command expects, and returns the path of the JSON file.
func WriteOverlay(root, dir string, files map[string]string) (string, error) {
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

// edited returns the edited text of each file that the named controls edit, by the path of the file below root.
func edited(root string, names ...string) (map[string]string, error) {
	files := make(map[string]string)
	for _, name := range names {
		edits, err := Find(name)
		if err != nil {
			return nil, err
		}
		for _, e := range edits {
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

// ModuleRoot returns the root directory of the module that contains the working directory.
func ModuleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("the working directory is not in the source tree: run the command in a directory of the source tree")
	}
	return filepath.Dir(mod), nil
}
