package testbed

import (
	"context"
	"os/exec"
	"strings"

	"keypool/internal/testenv/machine"
)

// Versions says which PostgreSQL and Redis a bed would start, "" for none.
func Versions(ctx context.Context) string {
	var versions []string
	for _, name := range []string{"postgres", "redis-server"} {
		path, err := machine.LookPath(name)
		if err != nil {
			continue
		}
		if says, err := exec.CommandContext(ctx, path, "--version").Output(); err == nil {
			versions = append(versions, strings.TrimSpace(string(says)))
		}
	}
	return strings.Join(versions, "; ")
}
