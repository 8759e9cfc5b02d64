package lab

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"keypool/internal/testenv/machine"
)

// Versions are those of the PostgreSQL and the Redis that [Postgres] and [Redis] start, as
// their programs print them; one that is not installed is left out.
func Versions(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var versions []string
	for _, name := range []string{"postgres", "redis-server"} {
		path, err := machine.LookPath(name)
		if err != nil {
			continue
		}
		if out, err := exec.CommandContext(ctx, path, "--version").Output(); err == nil {
			versions = append(versions, strings.TrimSpace(string(out)))
		}
	}
	return strings.Join(versions, "; ")
}
