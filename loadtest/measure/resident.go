package measure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Resident returns the share of the files below dir that the operating system keeps in its page cache, in
// percent. A look-up in a page that is not in the cache waits for the disk. Resident needs the program fincore,
// which Debian has in the package util-linux-extra.
func Resident(ctx context.Context, dir string) (percent float64, err error) {
	args := []string{"--bytes", "--noheadings", "--raw", "--output", "RES,SIZE"}
	err = eachFile(dir, func(path string) error {
		args = append(args, path)
		return nil
	})
	if err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, "fincore", args...).Output()
	if err != nil {
		return 0, fmt.Errorf("fincore: %w", err)
	}
	var resident, size float64
	for line := range strings.Lines(string(out)) {
		first, second, _ := strings.Cut(strings.TrimSpace(line), " ")
		r, errR := strconv.ParseFloat(first, 64)
		s, errS := strconv.ParseFloat(second, 64)
		if errR != nil || errS != nil {
			return 0, fmt.Errorf("fincore printed %q, want two numbers", line)
		}
		resident, size = resident+r, size+s
	}
	if size == 0 {
		return 0, fmt.Errorf("the files in %s are empty", dir)
	}
	return 100 * resident / size, nil
}

// ReadAhead reads the files below dir once. If they fit into memory, the operating system then has them in its
// page cache. A child process reads the files, because this process may have an SQLite database below dir open: when a
// process closes a file, POSIX drops all locks that the process has on the file.
func ReadAhead(ctx context.Context, dir string) error {
	return eachFile(dir, func(path string) error {
		err := exec.CommandContext(ctx, "cat", path).Run() // the output goes to /dev/null
		if err == nil {
			return nil
		}
		if _, gone := os.Stat(path); errors.Is(gone, fs.ErrNotExist) {
			return nil // a database removed the file
		}
		return fmt.Errorf("read %s: %w", path, err)
	})
}

// eachFile calls f with the path of each regular file below dir.
func eachFile(dir string, f func(path string) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		return f(path)
	})
}
