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
		if says, err := versionOf(ctx, path); err == nil {
			versions = append(versions, says)
		}
	}
	return strings.Join(versions, "; ")
}

func versionOf(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	says, err := exec.CommandContext(ctx, path, "--version").Output()
	return strings.TrimSpace(string(says)), err
}
