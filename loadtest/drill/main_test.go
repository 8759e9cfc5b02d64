//go:build drill

package drill

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// What TestMain leaves for the drills, which have no other way to share it.
var (
	// programs is the directory with the built programs.
	programs string
	// scale shortens the drills: durations and counts are multiplied by it.
	scale = flag.Float64("drill.scale", 1, "how long and how often, 1 being what is promised")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runDrills(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drill:", err)
		code = 1
	}
	os.Exit(code)
}

func runDrills(m *testing.M) (code int, err error) {
	if programs, err = os.MkdirTemp("", "keypool-drill-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(programs)) }()
	build := exec.CommandContext(context.Background(), "go", "build", "-o", programs, "keypool/cmd/shortener", "keypool/cmd/kgs")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("build the programs: %w", err)
	}
	if code = m.Run(); code != 0 {
		return code, nil
	}
	return 0, goleak.Find()
}

// times is n at the scale of this run, at least 1.
func times(n int) int { return max(1, int(float64(n)**scale)) }

// lasting is d at the scale of this run.
func lasting(d time.Duration) time.Duration { return time.Duration(float64(d) * *scale) }

const (
	poll    = 10 * time.Millisecond
	patient = time.Minute // for what takes seconds at the worst
)

// await waits until ok is true, and fails the test when that takes longer than limit.
func await(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	for !ok() {
		select {
		case <-time.After(poll):
		case <-deadline:
			t.Fatalf("after %v still not: %s", limit, what)
		}
	}
}

// pass lets time go by that is part of the drill, such as how long an outage lasts.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
