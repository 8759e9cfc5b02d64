package controls

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"keypool/internal/testenv"
)

// Builder builds programs with controls, each combination of controls and program once.
// It may be used concurrently; builds run one after the other.
type Builder struct {
	dir string

	mu    sync.Mutex
	built map[string]bool // by the path of the program
}

// NewBuilder returns a Builder that keeps the programs in the directory dir, which belongs
// to the caller.
func NewBuilder(dir string) *Builder { return &Builder{dir: dir, built: make(map[string]bool)} }

// Build builds the programs, such as "shortener" and "kgs", with the named controls and with
// the build tag drill (package failpoint), and returns their directory. Without controls
// the programs have failpoints and every protection. A build takes seconds.
func (b *Builder) Build(ctx context.Context, without []string, programs ...string) (dir string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir = filepath.Join(b.dir, "without-"+strings.Join(without, "-"))
	if len(without) == 0 {
		dir = filepath.Join(b.dir, "whole")
	}
	var missing []string
	for _, program := range programs {
		if !b.built[filepath.Join(dir, program)] {
			missing = append(missing, "keypool/cmd/"+program)
		}
	}
	if len(missing) == 0 {
		return dir, nil
	}
	flags := []string{"-tags", "drill"}
	if len(without) > 0 {
		source := filepath.Join(dir, "source")
		if err := os.MkdirAll(source, 0o700); err != nil {
			return "", err
		}
		overlay, err := Overlay(ctx, source, without...)
		if err != nil {
			return "", err
		}
		flags = append(flags, "-overlay", overlay)
	}
	if err := testenv.Build(ctx, dir, append(flags, missing...)...); err != nil {
		return "", err
	}
	for _, program := range programs {
		b.built[filepath.Join(dir, program)] = true
	}
	return dir, nil
}
