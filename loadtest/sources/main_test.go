//go:build drill

package sources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// programs has the directories of the built programs.
var programs struct {
	shipped string // as `make build` makes them
	drill   string // those that can be broken on purpose
}

func TestMain(m *testing.M) {
	logging.Disable() // a Redis that does not answer is no news here
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sources:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "keypool-sources-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	programs.shipped, programs.drill = filepath.Join(dir, "shipped"), filepath.Join(dir, "drill")
	err = errors.Join(
		build(programs.shipped),
		build(programs.drill, "-tags", "drill"),
	)
	if err != nil {
		return 0, err
	}
	if code = m.Run(); code != 0 {
		return code, nil
	}
	return 0, goleak.Find()
}

// build builds all programs into dir as `make build` does, with further flags.
func build(dir string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false"}, flags...)
	cmd := exec.CommandContext(context.Background(), "go", append(args, "-o", dir+"/", "keypool/cmd/...")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w; it said:\n%s", err, out)
	}
	return nil
}
