package measure

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"keypool/loadtest/lab"
)

func TestResidentReportsShareOfFilesInPageCache(t *testing.T) {
	t.Parallel()
	if !lab.Installed("fincore") {
		t.Fatal("fincore is not installed; `make test` installs it")
	}
	const size = 8 << 20
	dir, err := os.MkdirTemp("/var/tmp", "keypool-") //nolint:usetesting // t.TempDir may be on a tmpfs, whose files never leave the page cache
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	f, err := os.Create(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(bytes.Repeat([]byte{1}, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	want := func(least, most float64) {
		t.Helper()
		if got, err := Resident(t.Context(), dir); err != nil || got < least || got > most {
			t.Errorf("Resident = %v %%, %v; want %v to %v", got, err, least, most)
		}
	}
	want(90, 100)
	if err := unix.Fadvise(int(f.Fd()), 0, size, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	want(0, 10)
	if err := ReadAhead(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	want(90, 100)
}
