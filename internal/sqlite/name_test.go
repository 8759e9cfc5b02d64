package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"keypool/internal/sqlite"
)

// Two processes that open a file by two names have separate logs. Each would lose the commits of the other.
func TestOpenRefusesFileWithSeveralHardLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, other} {
		if db, err := sqlite.Open(t.Context(), name); !errors.Is(err, sqlite.ErrSeveralNames) {
			t.Errorf("Open of %s = %v, %v; want ErrSeveralNames", name, db, err)
		}
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

// A container may mount a single file, which needs root. So the test uses a mount point that each process has.
func TestOpenRecognizesMountPoints(t *testing.T) {
	t.Parallel()
	if path := "/proc"; !sqlite.IsMounted(path) {
		t.Errorf("%s is not recognized as a mount point", path)
	}
	if path := filepath.Join(t.TempDir(), "a.db"); sqlite.IsMounted(path) {
		t.Errorf("%s is recognized as a mount point", path)
	}
}
