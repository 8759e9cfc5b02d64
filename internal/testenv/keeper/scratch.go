package main

import (
	"os"
	"syscall"
)

const (
	inMemory    = "/dev/shm"
	enoughBytes = 4 << 30
)

// scratch is where the files of tests go, and the settings that say so: into memory where
// there is room, so that no test waits for a disk that others keep busy. A process that is
// killed loses nothing there, and no test crashes the machine. Where there is none, or TMPDIR
// is set, they go where they always do. What is built goes there in any case. remove takes
// all of it away.
func scratch() (settings []string, remove func() error) {
	nothing := func() error { return nil }
	if os.Getenv("TMPDIR") != "" || !hasRoom(inMemory) {
		return nil, nothing
	}
	dir, err := os.MkdirTemp(inMemory, "keypool-tests-")
	if err != nil {
		return nil, nothing // it is not for this user
	}
	remove = func() error { return os.RemoveAll(dir) }
	// Servers may run as another user, who has to get through.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // nobody sees what is in it
		return nil, remove
	}
	if os.Getenv("GOTMPDIR") == "" {
		settings = append(settings, "GOTMPDIR="+os.TempDir())
	}
	return append(settings, "TMPDIR="+dir), remove
}

// hasRoom also wants that programs can be started from there, as some tests do.
func hasRoom(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Flags&syscall.MS_NOEXEC == 0 && s.Bavail*uint64(s.Bsize) >= enoughBytes
}
