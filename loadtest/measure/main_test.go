package measure

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain serves the baselines in the processes that the tests start for them.
func TestMain(m *testing.M) {
	if asked, err := BaselineMain(os.Args[1:]); asked {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
