package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// signalled names an environment variable. If the variable is set, the test binary sends signals to itself. The value says which
// signals, and when. If no signal ends the test binary, its exit status is 0.
const signalled = "KEYPOOL_TEST_SIGNALS"

const (
	atOnce = "at once" // two more signals, 50 and 100 ms after the first
	later  = "later"   // more signals for a minute, beginning 1.5 s after the first
	hangup = "hangup"  // SIGHUP, and also SIGTERM if SIGHUP is ignored; the test binary prints which of them ended the context
)

func TestMain(m *testing.M) {
	if signals := os.Getenv(signalled); signals != "" {
		ctx := UntilSignal()
		if signals == hangup {
			_ = syscall.Kill(os.Getpid(), syscall.SIGHUP)
			if signal.Ignored(syscall.SIGHUP) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			}
			<-ctx.Done()
			fmt.Println(context.Cause(ctx))
			os.Exit(0)
		}
		kill := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) }
		kill()
		<-ctx.Done()
		pause, more := 50*time.Millisecond, 2
		if signals == later {
			<-time.After(1400 * time.Millisecond)
			pause, more = 100*time.Millisecond, 600
		}
		for range more {
			<-time.After(pause)
			kill()
		}
		<-time.After(pause) // for the effect of the last signal
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A second signal has no effect if it follows the first signal at once. If it comes later, it ends the program.
func TestSecondSignalKillsProgramOnlyAfterPause(t *testing.T) {
	t.Parallel()
	killed := func(signals string) bool {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), signalled+"="+signals)
		err := child.Run()
		status, ended := errors.AsType[*exec.ExitError](err)
		if err != nil && (!ended || status.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM) {
			t.Fatalf("the program ended with %v", err)
		}
		return err != nil
	}
	for attempts := 1; killed(atOnce); attempts++ { // a busy machine may delay the next signals
		if attempts == 10 {
			t.Fatal("signals that follow the first signal at once ended the program ten times")
		}
	}
	if !killed(later) {
		t.Error("signals that came later did not end the program")
	}
}

// nohup starts a program that ignores SIGHUP, so that the program survives a logout.
func TestHangupStopsProgramUnlessProgramIgnoresHangup(t *testing.T) {
	t.Parallel()
	for start, want := range map[string]syscall.Signal{`exec "$0"`: syscall.SIGHUP, `trap "" HUP; exec "$0"`: syscall.SIGTERM} {
		if signal.Ignored(syscall.SIGHUP) { // a shell that ignored SIGHUP at its start cannot change this
			want = syscall.SIGTERM
		}
		child := exec.CommandContext(t.Context(), "sh", "-c", start, os.Args[0])
		child.Env = append(os.Environ(), signalled+"="+hangup)
		out, err := child.Output()
		if got := string(out); err != nil || got != want.String()+" signal received\n" {
			t.Errorf("%s: the program ended with %v and %q, want the end by %v", start, err, got, want)
		}
	}
}
