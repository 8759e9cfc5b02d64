package schemes

import (
	"context"
	"fmt"
	"os"
	"testing"

	"keypool/internal/testenv"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// programs is the directory of the project's programs as they are now.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	logging.Disable() // a Redis that is killed is no news here
	var err error
	if programs, err = os.MkdirTemp("", "keypool-schemes-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(programs) }() // what is left is in the temporary directory
	if err := testenv.Build(context.Background(), programs, "-tags", programTags, "keypool/cmd/shortener", "keypool/cmd/kgs"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
