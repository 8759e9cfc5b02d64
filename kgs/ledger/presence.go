package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"keypool/internal/diskfile"
)

// Presence is a locked file beside an SQLite database. The lock shows that a holder is alive. When the process of the
// holder ends, the kernel releases the lock. Therefore the next process knows at once which holders were killed, and
// does not wait for heartbeats. A frozen process keeps its lock.
//
// The uniqueness of numbers does not depend on the lock. If a living holder is declared dead, other holders can take over
// its ranges. The ledger then refuses all changes of these ranges by the former holder, as it does for a holder that was
// frozen.
type Presence struct {
	file *os.File
	path string
}

// The path of the file of a Presence is the path of the database, presenceInfix and the name of the holder.
const presenceInfix = ".holder-"

// draftSuffix ends the name of a draft. A draft is an incomplete file, which is renamed when it is complete.
const draftSuffix = ".new"

// draftMemory is the age at which Bury removes a draft. A living process renames its draft earlier.
const draftMemory = time.Minute

// Announce creates the locked file of a holder of the SQLite file at database. The caller closes the Presence after the
// holder is released.
func Announce(database, holder string) (*Presence, error) {
	path := database + presenceInfix + holder
	file, err := diskfile.CreateBeside(database, path+draftSuffix)
	if err != nil {
		return nil, fmt.Errorf("announce the holder: %w", err)
	}
	err = lockFile(file)
	if err == nil {
		err = os.Rename(file.Name(), path) // another process never sees the file without its lock
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("announce the holder: %w", err), os.Remove(file.Name()), file.Close())
	}
	return &Presence{file, path}, nil
}

// lockFile locks a file. It fails if another process, or another open file of this process, has locked the file.
func lockFile(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// Close removes the file, if it is still there, and ends the lock.
func (p *Presence) Close() error {
	err := os.Remove(p.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, p.file.Close())
}

// Bury looks for the holders that were announced for the SQLite database at path. It declares a holder dead if the
// process of the holder has ended. Other holders can then take over the ranges of the dead holders at once, and the next
// Sweep abandons the batches of the dead holders. Bury returns the number of holders that it declared dead. If
// the program crashes in Bury, the next Bury finds the files that are left and handles them. If Bury fails for one
// holder, it continues with the other holders and returns all errors.
func (l *Ledger) Bury(ctx context.Context, path string) (dead int, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return 0, fmt.Errorf("ledger: bury: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		holder, announced := strings.CutPrefix(entry.Name(), filepath.Base(path)+presenceInfix)
		if !announced {
			continue
		}
		file := filepath.Join(filepath.Dir(path), entry.Name())
		if strings.HasSuffix(holder, draftSuffix) {
			err = removeOldDraft(file)
		} else {
			var ended bool
			if ended, err = l.buryOne(ctx, file, holder); ended {
				dead++
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("ledger: bury %s: %w", holder, err))
		}
	}
	return dead, errors.Join(errs...)
}

// removeOldDraft removes a draft of a process that was killed before it renamed the file.
func removeOldDraft(path string) error {
	info, err := os.Stat(path)
	if err == nil && time.Since(info.ModTime()) > draftMemory {
		err = os.Remove(path)
	}
	if errors.Is(err, os.ErrNotExist) { // the process has renamed the file
		err = nil
	}
	return err
}

func (l *Ledger) buryOne(ctx context.Context, path, holder string) (ended bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0) // NFS locks only a file that is open for writing
	if errors.Is(err, os.ErrNotExist) {          // the holder has just stopped, or another process has declared it dead
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := lockFile(file); errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil // the holder is alive
	} else if err != nil {
		return false, err
	}
	err = l.update(ctx, "bury", func(ctx context.Context, t *tx) error {
		return t.exec(ctx, `DELETE FROM kgs_holders WHERE holder = $1`, holder)
	})
	if err != nil {
		return false, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	return true, nil
}
