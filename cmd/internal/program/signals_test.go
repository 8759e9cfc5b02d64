package program

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// signalled names an environment variable. If it is set, the test binary waits for a signal, sends itself further signals, and ends
// with status 0 if it survives them.
const signalled = "KEYPOOL_TEST_SIGNALS"

func TestMain(m *testing.M) {
	if pauses := os.Getenv(signalled); pauses != "" {
		ctx := UntilSignal()
		kill := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) }
		kill()
		<-ctx.Done()
		for _, text := range strings.Split(pauses, ",") {
			pause, err := time.ParseDuration(text)
			if err != nil {
				panic(err)
			}
			<-time.After(pause)
			kill()
		}
		<-time.After(100 * time.Millisecond) // for the effect of the last signal
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A second signal has no effect if it follows the first signal at once. If it comes later, it ends the program.
func TestSecondSignalKillsProgramOnlyAfterPause(t *testing.T) {
	t.Parallel()
	for pauses, killed := range map[string]bool{"50ms,50ms": false, "1500ms": true} {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), signalled+"="+pauses)
		err := child.Run()
		status, ended := errors.AsType[*exec.ExitError](err)
		if got := ended && status.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM; got != killed {
			t.Errorf("after pauses of %s, the program ended with %v", pauses, err)
		}
	}
}
