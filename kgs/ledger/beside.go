package ledger

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// draftSuffix ends the name of a draft. A draft is an incomplete file, which is renamed when it is complete.
const draftSuffix = ".new"

// IsBeside reports whether the ledger has files beside an SQLite file whose names consist of the name of the SQLite file and
// suffix.
func IsBeside(suffix string) bool {
	return strings.HasPrefix(suffix, witnessInfix) || strings.HasPrefix(suffix, presenceInfix)
}

// createBeside creates a file at path for the processes that use the SQLite file at database. The new file has the permissions of the
// database. If this process runs as root, the new file also has the owner of the database, because the next process may run as this owner.
func createBeside(database, path string) (*os.File, error) {
	of, err := os.Stat(database)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = file.Chmod(of.Mode().Perm() | 0o600)
	if owner, ok := of.Sys().(*syscall.Stat_t); ok && err == nil && os.Geteuid() == 0 {
		err = file.Chown(int(owner.Uid), int(owner.Gid))
	}
	if errors.Is(err, os.ErrPermission) { // some file systems and containers do not permit these changes; the file is still useful
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path), file.Close())
	}
	return file, nil
}

// syncFolder makes the names of the files in a folder durable. Some file systems do not support this.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, folder.Close())
}
