package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Build builds programs of the project into dir, which it makes, as `make build` does; args
// are further flags of `go build` and then the packages. It blocks for seconds, or for
// minutes where nothing of them was built before. All tests build in this one way, and so
// share what is compiled.
func Build(ctx context.Context, dir string, args ...string) error {
	args = append([]string{"build", "-trimpath", "-buildvcs=false", "-o", dir + "/"}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w; it said:\n%s", err, out)
	}
	return nil
}
