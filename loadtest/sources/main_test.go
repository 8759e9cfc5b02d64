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
	for into, tags := range map[string]string{programs.shipped: "", programs.drill: "drill"} {
		if err := testenv.Build(context.Background(), into, "-tags", tags, "keypool/cmd/..."); err != nil {
			return 0, err
		}
	}
	if code = m.Run(); code != 0 {
		return code, nil
	}
	return 0, goleak.Find()
}
