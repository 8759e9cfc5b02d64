package proc_test

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"go.uber.org/goleak"

	"keypool/internal/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 2 * time.Minute

func start(t *testing.T, script string) *proc.Process {
	t.Helper()
	p, err := proc.Start(exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.SignalTree(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		<-p.Done()
	})
	return p
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("condition not true within %v: %s", limit, what)
		}
	}
}

func TestProcessExitReturnsExitStatus(t *testing.T) {
	t.Parallel()
	p := start(t, "exit 3")
	if status, err := p.Exit(limit); status != 3 || err != nil || p.Err() == nil {
		t.Errorf("status %d, error %v, ended by %v; want 3", status, err, p.Err())
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("Signal to a process that has ended = %v, want nil", err)
	}
	if proc.Alive(p.PID()) {
		t.Error("the process is alive after its end")
	}
	if _, err := start(t, "sleep 100").Exit(time.Millisecond); err == nil {
		t.Error("Exit returned no error for a process that is still running")
	}
	if _, err := proc.Start(exec.Command("/nonexistent")); err == nil {
		t.Error("a program that does not exist was started")
	}
}

func TestSignalTreeReachesDescendants(t *testing.T) {
	t.Parallel()
	p := start(t, "(sleep 100; true) & wait")
	eventually(t, "there are a child and a grandchild", func() bool { return len(p.Descendants()) == 2 })
	all := append(p.Descendants(), p.PID())
	if err := p.SignalTree(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		eventually(t, "the process is stopped", func() bool { return proc.State(pid) == "T" })
	}
	if err := p.SignalTree(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all have ended", func() bool { return !slices.ContainsFunc(all, proc.Alive) })
	if status, err := p.Exit(limit); status != -1 || err != nil {
		t.Errorf("status %d, error %v; want -1", status, err)
	}
}

func TestFreePortReturnsDifferentPorts(t *testing.T) {
	t.Parallel()
	seen := make(map[int]bool)
	for range 40 {
		port, err := proc.FreePort(10_000, 20_000)
		if err != nil || port < 10_000 || port >= 20_000 || seen[port] {
			t.Errorf("port %d, error %v; want a new port from 10000 to 19999", port, err)
		}
		seen[port] = true
	}
}

func TestProcessorTimeOfProcessTreeIncludesEndedChildren(t *testing.T) {
	t.Parallel()
	const initial, us, child, grandchild, other = 1, 10, 11, 12, 20
	running := []procfs.ProcStat{
		{PID: initial, UTime: 900}, {PID: us, PPID: initial, UTime: 100, STime: 50}, {PID: child, PPID: us, UTime: 200, CUTime: 10},
		{PID: grandchild, PPID: child, STime: 40}, {PID: other, PPID: initial, UTime: 7000, CUTime: 100},
	}
	if got := proc.Family(running, us); got != 4*time.Second {
		t.Errorf("the family took %v, want 4s", got)
	}
	ended := []procfs.ProcStat{running[0], {PID: us, PPID: initial, UTime: 100, STime: 50, CUTime: 210, CSTime: 40}, running[4]}
	if got := proc.Family(ended, us); got != 4*time.Second {
		t.Errorf("after the end of its children, the family took %v, want 4s", got)
	}
}

// For a process that has ended, Processor must return an error and not the time 0.
func TestProcessorTimeFailsForEndedProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "exec sleep 60")
	if used, err := p.Processor(); err != nil {
		t.Errorf("Processor of a running process = %v, %v", used, err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if used, err := p.Processor(); err == nil {
		t.Errorf("Processor of an ended process = %v, want an error", used)
	}
}
