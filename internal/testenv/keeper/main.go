// Program keeper finds or starts the servers that tests use, and stops the servers that it started.
//
//	keeper run COMMAND [ARGUMENT...]   runs a command with TEST_DATABASE_URL and
//	                                   TEST_REDIS_URL set; exits with the command's status
//	keeper serve postgres|redis        prints the URL of one server and keeps the server
//	                                   until standard input ends
//	keeper need PROGRAM...             installs the listed programs that are missing
//
// TEST_SERVERS=env|docker|machine|apt selects how keeper gets a server; see ways.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// childGrace is how long a command may still run after it was interrupted. After this time,
// runCommand kills the command.
const childGrace = 2 * time.Minute

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	f := finder{log: log, forced: os.Getenv("TEST_SERVERS")}

	var err error
	status := 0
	switch {
	case len(args) >= 2 && args[0] == "run":
		status, err = runWithServers(ctx, f, args[1:])
	case len(args) == 2 && args[0] == "serve" && args[1] == postgres.name:
		err = serve(ctx, f, postgres)
	case len(args) == 2 && args[0] == "serve" && args[1] == redis.name:
		err = serve(ctx, f, redis)
	case len(args) >= 2 && args[0] == "need":
		err = need(ctx, log, args[1:])
	default:
		fmt.Fprintln(os.Stderr, "usage: keeper run COMMAND... | keeper serve postgres|redis | keeper need PROGRAM...")
		return 2
	}
	if err != nil {
		log.Error("keeper failed", "error", err)
		return 1
	}
	return status
}

// serve prints the server's URL. When standard input or ctx ends, serve stops the server if the keeper started it.
// Standard input ends when the process that started this program closes the input or ends.
func serve(ctx context.Context, f finder, e engine) (err error) {
	server, err := f.find(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if _, err := fmt.Fprintln(os.Stdout, server.url); err != nil {
		return err
	}
	released := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		released <- err
	}()
	select {
	case err := <-released:
		return err
	case <-ctx.Done(): // the goroutine above ends with the program
		return nil
	}
}

// runWithServers runs a command with both servers and returns its exit status.
func runWithServers(ctx context.Context, f finder, command []string) (status int, err error) {
	engines := []engine{postgres, redis}
	servers := make([]running, len(engines))
	defer func() {
		for _, s := range servers {
			if s.stop != nil {
				err = errors.Join(err, s.stop())
			}
		}
	}()
	start, startCtx := errgroup.WithContext(ctx)
	for i, e := range engines {
		start.Go(func() (err error) {
			servers[i], err = f.find(startCtx, e)
			return err
		})
	}
	if err := start.Wait(); err != nil {
		return 0, err
	}
	settings, remove := scratch()
	defer func() { err = errors.Join(err, remove()) }()
	env := append(append(os.Environ(), settings...), "TEST_SERVERS=env")
	for i, e := range engines {
		env = append(env, e.variable+"="+servers[i].url)
	}
	return runCommand(ctx, command, env)
}

// runCommand runs a command and returns its exit status. The command has its own process group, so that
// Ctrl-C reaches only the keeper. When ctx ends, runCommand interrupts this group and waits for the command,
// so that the servers stop after the command.
func runCommand(ctx context.Context, command, env []string) (status int, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = childGrace
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}
