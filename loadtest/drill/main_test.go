//go:build drill

package drill

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest/controls"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// What TestMain leaves for the drills, which have no other way to share it.
var (
	// programs has the directories of the built programs.
	programs struct {
		shipped string            // as `make build` makes them
		drill   *controls.Builder // with failpoints in them, and without a protection
	}
	// table is what came of the rows.
	table report

	scale   = flag.Float64("drill.scale", 1, "how long and how often, 1 being what is promised")
	only    = flag.String("drill.row", "", "the rows to run, comma-separated; all when empty")
	file    = flag.String("drill.table", "", "a file to write the table to, as Markdown")
	version = flag.String("drill.version", "unknown", "the commit that the table names")
)

func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable() // a Redis that does not answer is no news here
	code, err := runDrills(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drill:", err)
		code = 1
	}
	os.Exit(code)
}

func runDrills(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "keypool-drill-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	programs.shipped, programs.drill = filepath.Join(dir, "shipped"), controls.NewBuilder(dir)
	if err := testenv.Build(context.Background(), programs.shipped, "keypool/cmd/shortener", "keypool/cmd/kgs"); err != nil {
		return 0, err
	}
	start := time.Now()
	code = m.Run()
	if err := table.print(time.Since(start)); err != nil {
		return code, err
	}
	if code != 0 {
		return code, nil
	}
	return 0, goleak.Find()
}
