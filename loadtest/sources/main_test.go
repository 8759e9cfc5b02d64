//go:build drill

package sources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"keypool/internal/testenv"
	"keypool/loadtest/controls"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// programs has the directories of the built programs.
var programs struct {
	shipped string            // as `make build` makes them
	drill   *controls.Builder // with failpoints in them, and without a protection
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
	programs.shipped, programs.drill = filepath.Join(dir, "shipped"), controls.NewBuilder(dir)
	if err := testenv.Build(context.Background(), programs.shipped, "keypool/cmd/..."); err != nil {
		return 0, err
	}
	if code = m.Run(); code != 0 {
		return code, nil
	}
	return 0, goleak.Find()
}
