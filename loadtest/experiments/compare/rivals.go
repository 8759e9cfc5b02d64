package compare

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"keypool/internal/testenv"
	"keypool/loadtest/controls"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
)

// The names of the rivals, which are simple ways to hand out prepared keys. They are not values of KEY_SOURCE in the shipped
// programs. Only this experiment builds them, to compare them with the pools.
const (
	lockedTable = "locked-table"
	redisSet    = "redis-set"
)

//go:embed rivals/rivals.go
var rivalsCode string

// chainFile contains the table of key sources.
const chainFile = "cmd/internal/app/chain.go"

// buildRivals builds the programs with the rivals, and returns the rivals as key sources. No file in the source tree
// changes.
func buildRivals(t *experiment.T) []sources.Source {
	root, err := controls.ModuleRoot(t.Context())
	t.Must(err)
	dir := t.TempDir()
	overlay, err := overlayRivals(root, dir)
	t.Must(err)
	programs := filepath.Join(dir, "bin")
	t.Must(testenv.Build(t.Context(), programs, "-overlay", overlay, "keypool/cmd/shortener", "keypool/cmd/kgs"))
	return rivals(programs)
}

func rivals(programs string) []sources.Source {
	return []sources.Source{
		{Name: lockedTable, Title: "a table of keys under one lock", Settings: []string{"KEY_SOURCE=" + lockedTable},
			Label: lockedTable, Class: sources.Other, Programs: programs},
		{Name: redisSet, Title: "a set of keys in Redis, one SPOP for each creation", Settings: []string{"KEY_SOURCE=" + redisSet},
			Label: redisSet, Class: sources.Other, Redis: true, Programs: programs},
	}
}

func isRival(s *sources.Source) bool { return s.Programs != "" }

// overlayRivals writes an overlay for `go build -overlay` into dir, and returns its path. The overlay adds the rivals:
// one file, and two entries in the table of key sources.
func overlayRivals(root, dir string) (path string, err error) {
	chain, err := os.ReadFile(filepath.Join(root, chainFile))
	if err != nil {
		return "", err
	}
	const first = "\treturn []keySource{\n"
	if n := strings.Count(string(chain), first); n != 1 {
		return "", fmt.Errorf("%s has %d tables of key sources, want 1", chainFile, n)
	}
	entries := fmt.Sprintf("\t\t{name: %q, needs: config.NeedsPostgres, open: openLockedTable},\n\t\t{name: %q, needs: config.NeedsRedis, open: openRedisSet},\n", lockedTable, redisSet)
	return controls.WriteOverlay(root, dir, map[string]string{
		chainFile:                    strings.Replace(string(chain), first, first+entries, 1),
		"cmd/internal/app/rivals.go": strings.Replace(rivalsCode, "//go:build rivals\n\n", "", 1),
	})
}
