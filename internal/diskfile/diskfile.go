// Package diskfile creates files beside a database, and makes the names of files durable.
package diskfile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// CreateBeside creates a file at path for the processes that use the SQLite file at database. It fails with
// [os.ErrExist] if the file exists. The new file has the permissions of the database. If this process runs as root, the
// new file also has the owner of the database, because the next process may run as this owner. If the file system or a
// container does not permit such a change, CreateBeside ignores the error.
func CreateBeside(database, path string) (*os.File, error) {
	model, err := os.Stat(database)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = file.Chmod(model.Mode().Perm() | 0o600)
	if err == nil {
		err = giveTo(file, model)
	}
	if errors.Is(err, os.ErrPermission) { // some file systems and containers do not permit these changes; the file is still useful
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path), file.Close())
	}
	return file, nil
}

// GiveToOwnerOfFolder gives a new file to the owner of its folder if this process runs as root. Some file systems and
// containers do not permit this. The file then keeps its owner.
func GiveToOwnerOfFolder(file *os.File) error {
	folder, err := os.Stat(filepath.Dir(file.Name()))
	if err == nil {
		err = giveTo(file, folder)
	}
	if errors.Is(err, os.ErrPermission) {
		err = nil
	}
	return err
}

// giveTo gives file the owner of another file, which model describes, if this process runs as root. The error wraps
// os.ErrPermission if the change of the owner is not permitted.
func giveTo(file *os.File, model os.FileInfo) error {
	owner, ok := model.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	err := file.Chown(int(owner.Uid), int(owner.Gid))
	if errors.Is(err, syscall.EINVAL) { // the user namespace of this process does not have this owner
		return os.ErrPermission
	}
	return err
}

// SyncFolder makes the names of the files in a folder durable. If the file system does not support this, SyncFolder does
// nothing and returns nil.
func SyncFolder(path string) error {
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
