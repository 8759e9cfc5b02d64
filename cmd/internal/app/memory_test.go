package app

import (
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
)

// This test is not parallel, because the memory limit applies to the whole process.
func TestProgramRefusesTooSmallMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, tt := range []struct {
		text   string
		limit  int64
		status int
		output string
	}{
		{"0", 0, ExitUsage, `test: GOMEMLIMIT: got "0", takes 32MiB or more, or off` + "\n"},
		{"1KiB", 1 << 10, ExitUsage, `test: GOMEMLIMIT: got "1KiB", takes 32MiB or more, or off` + "\n"},
		{"32MiB", 32 << 20, exitFailed, "test: the program started\n"},
		{"off", math.MaxInt64, exitFailed, "test: the program started\n"},
	} {
		t.Setenv("GOMEMLIMIT", tt.text)
		debug.SetMemoryLimit(tt.limit) // the Go runtime does this before main
		var output strings.Builder
		status := Console{Name: "test", Errors: &output}.Run(t.Context(), config.Common{}, func(*slog.Logger) (*program.Program, error) {
			return nil, errors.New("the program started")
		})
		if status != tt.status || output.String() != tt.output {
			t.Errorf("GOMEMLIMIT=%s: exit status %d and output %q, want %d and %q", tt.text, status, output.String(), tt.status, tt.output)
		}
	}
}

func TestGoRuntimeLeavesMemoryForSQLite(t *testing.T) {
	t.Parallel()
	for memory, want := range map[uint64]int64{ // in MiB
		1000: 800,
		120:  96,
		100:  76,
		64:   40,
		48:   24,
		32:   16,
	} {
		if got := goMemory(memory<<20) >> 20; got != want {
			t.Errorf("in a cgroup of %d MiB: %d MiB, want %d", memory, got, want)
		}
	}
}
