package schemes

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

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
	build := exec.Command("go", "build", "-buildvcs=false", "-o", programs, "keypool/cmd/shortener", "keypool/cmd/kgs")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
