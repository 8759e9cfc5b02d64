package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Build builds programs of the project into dir, which it creates. It compiles with the flags of `make build`, so
// that all tests share the build cache. It links without a version and without debug information, so the linker needs
// only half the time. The args are more flags of `go build`, followed by the packages. Build blocks for seconds, or
// for minutes if the build cache is empty.
func Build(ctx context.Context, dir string, args ...string) error {
	args = append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-w", "-o", dir + "/"}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w; it said:\n%s", err, out)
	}
	return nil
}
