package measure

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain serves the baselines in the processes that the tests start for them.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "baseline" {
		fmt.Fprintln(os.Stderr, "baseline:", ServeBare(context.Background(), os.Args[3]))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
