package machine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const installTimeout = 10 * time.Minute

// LookPath returns the path of a program in PATH or in /usr/sbin. It also looks for PostgreSQL programs in
// Debian's directories, which are not in PATH, and prefers the newest version. If the program is missing, the
// error wraps [exec.ErrNotFound].
func LookPath(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	if path, err := exec.LookPath("/usr/sbin/" + program); err == nil {
		return path, nil
	}
	versions, globErr := filepath.Glob("/usr/lib/postgresql/[0-9]*/bin/" + program)
	if globErr != nil || len(versions) == 0 {
		return "", err
	}
	major := func(path string) int {
		n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		if err != nil {
			return 0 // not a version: MaxFunc prefers every version to this program
		}
		return n
	}
	return slices.MaxFunc(versions, func(a, b string) int { return major(a) - major(b) }), nil
}

// Install installs Debian packages. It works as root, or with a sudo that needs no password. It
// waits while another process runs apt-get.
func Install(ctx context.Context, packages ...string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("install %q: %w", packages, err)
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if err := runApt(ctx, apt, "update"); err != nil {
		return err
	}
	return runApt(ctx, apt, append([]string{"install", "--yes", "--no-install-recommends", "--no-upgrade"}, packages...)...)
}

func runApt(ctx context.Context, apt string, args ...string) error {
	command := append([]string{"env", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", apt, "--quiet", "--quiet"}, args...)
	if os.Geteuid() != 0 {
		command = append([]string{"sudo", "--non-interactive"}, command...)
	}
	for {
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		if err == nil {
			return nil
		}
		// apt-get has an option to wait for some of its locks, but not for the lock of the
		// package lists.
		if !bytes.Contains(out, []byte("Could not get lock")) {
			return fmt.Errorf("apt-get %s: %w; it said:\n%s", args[0], err, out)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another apt-get: %w", ctx.Err())
		case <-time.After(time.Second):
		}
	}
}
