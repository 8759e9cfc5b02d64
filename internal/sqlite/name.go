package sqlite

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
)

// ErrSeveralNames reports that a database file may have another name.
var ErrSeveralNames = errors.New("the database file may have several names")

// requireOneName fails if the file at path has several hard links, or if path is a mount point, as in a container with
// a volume for a single file. SQLite keeps the log beside the file, under the name of the file. So two processes
// that open the file by different names would have different logs, and each would lose what the other commits; see
// section 2.5 of "How To Corrupt An SQLite Database File" by SQLite. If the mounts of the process cannot be read,
// requireOneName checks only the number of hard links.
func requireOneName(path string, info os.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return fmt.Errorf("open the database %s: %w: it has %d hard links", path, ErrSeveralNames, stat.Nlink)
	}
	if isMounted(path) {
		return fmt.Errorf("open the database %s: %w: the file itself is mounted", path, ErrSeveralNames)
	}
	return nil
}

// isMounted reports whether path is a mount point. It returns false if the mounts of the process cannot be read.
func isMounted(path string) bool {
	escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(path) // as in /proc/self/mountinfo
	mounts, err := procfs.GetMounts()
	return err == nil && slices.ContainsFunc(mounts, func(m *procfs.MountInfo) bool { return m.MountPoint == escaped })
}
