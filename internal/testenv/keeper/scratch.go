package main

import (
	"os"
	"syscall"
)

const (
	inMemory    = "/dev/shm"
	enoughBytes = 4 << 30
)

// scratch returns the environment settings for the temporary files of tests. If enough memory is
// free, the files are in a directory in memory, so that no test waits for a busy disk. Tests of
// durability still work, because files in /dev/shm survive the kill of a process, and no test crashes
// the machine. If memory is short or TMPDIR is set, scratch changes nothing. Build files always stay
// in the usual directory. remove deletes the directory in memory.
func scratch() (settings []string, remove func() error) {
	nothing := func() error { return nil }
	if os.Getenv("TMPDIR") != "" || !hasRoom(inMemory) {
		return nil, nothing
	}
	dir, err := os.MkdirTemp(inMemory, "keypool-tests-")
	if err != nil {
		return nil, nothing // this user cannot write there
	}
	remove = func() error { return os.RemoveAll(dir) }
	// Servers may run as another user and must be able to enter the directory.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // other users can enter the directory but not list it
		return nil, remove
	}
	if os.Getenv("GOTMPDIR") == "" {
		settings = append(settings, "GOTMPDIR="+os.TempDir())
	}
	return append(settings, "TMPDIR="+dir), remove
}

// hasRoom reports whether dir has enough free space. It also requires that programs in dir can be
// executed, because some tests execute programs.
func hasRoom(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Flags&syscall.MS_NOEXEC == 0 && s.Bavail*uint64(s.Bsize) >= enoughBytes
}
