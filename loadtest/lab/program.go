package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"keypool/internal/proc"
	"keypool/loadtest"
)

// stopLimit is the longest time that an orderly stop may take in an experiment. The limit of the
// programs themselves is 15 s.
const stopLimit = 10 * time.Second

// Program is one of the project's programs with its listeners. It can be stopped, killed, frozen and
// started again on the same addresses. Only one goroutine at a time may call methods that start, end or
// signal the program. Other methods may be called concurrently, except those that can end the run: the package
// comment says which goroutine may call them.
type Program struct {
	Public   string // http://host:port; not used by a worker
	Admin    string // http://host:port; "" for a deployment without an admin listener
	Client   *loadtest.Client
	Dir      string   // the working directory
	Settings []string // "NAME=value"; the last value of a name counts
	Prefix   []string // a command with arguments that runs the program; nil if the program runs directly
	Errors   *os.File // standard error of the program; nil means a log file in Dir

	r       Run
	name    string
	process *proc.Process
}

// Server returns a `shortener` with free ports and the settings. The caller starts the server. Without
// DATABASE_URL, the server keeps its links in an SQLite file in its directory.
func Server(r Run, settings ...string) *Program {
	return newProgram(r, "shortener", settings)
}

// Worker returns a `kgs`, which fills a pool, with free ports and the settings. The caller starts the worker.
func Worker(r Run, settings ...string) *Program {
	return newProgram(r, "kgs", settings)
}

// Deployment returns a server that is already running. An experiment can send requests to the server, but
// cannot start or stop it.
func Deployment(r Run, public string) *Program {
	p := &Program{Public: public, Client: loadtest.NewClient(public, 0), r: r, name: "the deployment"}
	r.Cleanup(p.Client.Close)
	return p
}

func newProgram(r Run, name string, settings []string) *Program {
	public, err := FreeAddr()
	must(r, err, "choose the public address")
	admin, err := FreeAddr()
	must(r, err, "choose the admin address")
	p := Deployment(r, "http://"+public)
	p.Admin, p.name, p.Dir = "http://"+admin, name, r.TempDir()
	p.Settings = append([]string{"LISTEN_ADDR=" + public, "ADMIN_ADDR=" + admin}, settings...)
	return p
}

// FreeAddr returns a free address for a program. It may be called concurrently. The port of the address is below
// 20,000, because the database servers of package machine use ports from 20,000 upwards.
func FreeAddr() (string, error) {
	port, err := proc.FreePort(10_000, 20_000)
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// Command returns a command of one of the built programs, such as `shortener migrate`. Its environment contains
// the given settings and after them the settings of the run, which override them. It may be called
// concurrently.
func Command(r Run, program, dir string, settings []string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(r.ProgramDir(), program), args...) //nolint:noctx // after an interruption the program must still run, because its links are read back
	cmd.Dir = dir
	cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, settings, r.Settings())
	return cmd
}

// Launch starts the program and returns before the program is ready.
func (p *Program) Launch() { p.process = p.Begin() }

// Begin starts another process of the program with the arguments args, such as "migrate". The process has the
// settings and the log of the program, and ends at the latest when the run ends.
func (p *Program) Begin(args ...string) *proc.Process {
	cmd := Command(p.r, p.name, p.Dir, p.Settings, args...)
	if len(p.Prefix) > 0 {
		cmd.Path, cmd.Args = p.Prefix[0], slices.Concat(p.Prefix, []string{cmd.Path}, cmd.Args[1:])
	}
	if p.Errors != nil {
		cmd.Stderr = p.Errors
	} else {
		log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		must(p.r, err, "launch "+p.name)
		defer func() { _ = log.Close() }() // the program has its own descriptor, and this process wrote nothing
		cmd.Stderr = log
	}
	run, err := proc.Start(cmd)
	must(p.r, err, "launch "+p.name)
	p.r.Cleanup(func() {
		if err := kill(run); err != nil {
			p.r.Errorf("end %s: %v", p.name, err)
		}
	})
	return run
}

// Start starts the program and waits until it is ready.
func (p *Program) Start() {
	p.Launch()
	p.AwaitReady(Patience)
}

// AwaitReady waits until /readyz answers 200. If the program ends or limit passes before that, AwaitReady ends
// the run.
func (p *Program) AwaitReady(limit time.Duration) {
	var last error
	ready := Happens(p.r, limit, func() bool {
		if p.Ended() {
			p.r.Fatalf("%s ended before it was ready, with status %d; its log:\n%s", p.name, p.Exit(Patience), p.Tail())
		}
		last = p.TryReady(p.r.Context())
		return last == nil
	})
	if !ready {
		p.r.Fatalf("%s is not ready after %v: %v; its log:\n%s", p.name, limit, last, p.Tail())
	}
}

// Stop ends the program with SIGTERM. If the stop takes more than 10 s, Stop ends the run. If the exit status
// is not 0, Stop records an error and the run continues.
func (p *Program) Stop() {
	p.Signal(syscall.SIGTERM)
	if status := p.Exit(stopLimit); status != 0 {
		p.r.Errorf("%s ended with status %d after SIGTERM; its log:\n%s", p.name, status, p.Tail())
	}
}

// Restart stops the program and starts it again.
func (p *Program) Restart() {
	p.Stop()
	p.Start()
}

// Kill ends the program with SIGKILL and waits until the process has ended. It does nothing if the
// program was never started.
func (p *Program) Kill() {
	if p.process == nil {
		return
	}
	must(p.r, kill(p.process), "kill "+p.name)
}

// kill sends SIGKILL to a process and waits until the process has ended.
func kill(run *proc.Process) error {
	if err := run.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_, err := run.Exit(Patience)
	return err
}

// Freeze stops the program with SIGSTOP and returns when the signal has taken effect. Connections stay open,
// and requests get no answer.
func (p *Program) Freeze() {
	p.Signal(syscall.SIGSTOP)
	Wait(p.r, Patience, p.name+" is stopped", p.Frozen)
}

// Frozen reports whether a SIGSTOP has taken effect on the program.
func (p *Program) Frozen() bool { return proc.State(p.PID()) == "T" }

// Thaw lets a frozen program continue.
func (p *Program) Thaw() { p.Signal(syscall.SIGCONT) }

// Signal sends sig to the program. It does nothing if the program has ended.
func (p *Program) Signal(sig syscall.Signal) {
	must(p.r, p.process.Signal(sig), "signal "+p.name)
}

// Exit waits for the end of the program and returns its exit status, or -1 if a signal ended the program. If
// the program is still running after limit, Exit ends the run.
func (p *Program) Exit(limit time.Duration) int {
	status, err := p.process.Exit(limit)
	if err != nil {
		p.r.Fatalf("%v; its log:\n%s", err, p.Tail())
	}
	return status
}

// Ended reports whether the program is not running.
func (p *Program) Ended() bool {
	if p.process == nil {
		return true
	}
	select {
	case <-p.process.Done():
		return true
	default:
		return false
	}
}

// PID returns the id of the latest process of the program.
func (p *Program) PID() int { return p.process.PID() }

// Tail returns the last 4,000 bytes of the log file in Dir. If Errors is set, the program does not write to this file.
func (p *Program) Tail() string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

func (p *Program) logFile() string { return filepath.Join(p.Dir, p.name+".log") }

// Memory is the memory of a process in bytes.
type Memory struct {
	Resident uint64
	Peak     uint64 // the largest Resident so far
}

// Memory returns the memory of the running program, from /proc/PID/status.
func (p *Program) Memory() Memory {
	memory, err := MemoryOf(p.PID())
	must(p.r, err, "read the memory of "+p.name)
	return memory
}

// MemoryOf returns the memory of a running process, from /proc/PID/status.
func MemoryOf(pid int) (Memory, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return Memory{}, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return Memory{}, err
	}
	if status.VmRSS == 0 {
		return Memory{}, fmt.Errorf("the process %d has ended", pid)
	}
	return Memory{Resident: status.VmRSS, Peak: status.VmHWM}, nil
}

// Processor returns the processor time that the running program has used.
func (p *Program) Processor() time.Duration {
	process, err := procfs.NewProc(p.PID())
	must(p.r, err, "read the processor time of "+p.name)
	stat, err := process.Stat()
	must(p.r, err, "read the processor time of "+p.name)
	return proc.Used(&stat)
}

// Written returns how many bytes the running program has written to the disk, from /proc/PID/io.
func (p *Program) Written() int64 {
	process, err := procfs.NewProc(p.PID())
	must(p.r, err, "read the writes of "+p.name)
	io, err := process.IO()
	must(p.r, err, "read the writes of "+p.name)
	return int64(io.WriteBytes)
}

// TryReady returns an error while /readyz does not answer 200.
func (p *Program) TryReady(ctx context.Context) error { return get(ctx, p.Admin+"/readyz", nil) }
