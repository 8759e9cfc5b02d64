package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
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

// A container may mount a single file. Only root can mount a file, so the test uses a mount point that every machine has.
func TestIsMountedRecognizesMountPoints(t *testing.T) {
	t.Parallel()
	if path := "/proc"; !sqlite.IsMounted(path) {
		t.Errorf("%s is not recognized as a mount point", path)
	}
	if path := filepath.Join(t.TempDir(), "a.db"); sqlite.IsMounted(path) {
		t.Errorf("%s is recognized as a mount point", path)
	}
}

// Root may run the first command, which creates the database. The user of the service must then be able to open it.
func TestDatabaseThatRootCreatesBelongsToOwnerOfFolder(t *testing.T) {
	t.Parallel()
	user, group := os.Geteuid(), os.Getegid()
	if user == 0 { // only root can create a folder for another user
		user, group = 65534, 65533
	}
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.Chown(filepath.Dir(path), user, group); err != nil {
		t.Fatal(err)
	}
	exec(t, open(t, path).Write, `CREATE TABLE t (a)`)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != user || int(owner.Gid) != group {
			t.Errorf("the file a.db%s belongs to %d:%d, want %d:%d", suffix, owner.Uid, owner.Gid, user, group)
		}
	}
}
