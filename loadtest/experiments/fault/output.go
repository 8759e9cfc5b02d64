package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"keypool/loadtest/lab"
)

const (
	dropsLines = "dropped lines counted"
	endsInTime = "end after SIGTERM"
)

// outputRows returns the fault rows in which a server cannot write to its standard error.
func outputRows() []row {
	claims := theLinks(
		observed(stillServes, "The server keeps running, and it answers the requests that cause log lines."),
		noneFails("while the server cannot write to its standard error"),
		observed(dropsLines, "The metric log_lines_dropped_total counts the log lines that the server drops."),
		observed(endsInTime, "After SIGTERM, the server ends within 10 s with status 0."),
	)
	return []row{
		{
			Name: "fault/30", Title: "standard error is a pipe that is not read",
			Summary: "The reading end of the pipe is open, but nothing reads from it. Clients cause 3,000 log lines, and the server is stopped with SIGTERM.",
			Run:     inject(func(r *run) { unwritable(r, func(*os.File) {}) }), Claims: claims, Controls: without(stillServes, "log-queue"),
		},
		{
			Name: "fault/30b", Title: "standard error is a closed pipe",
			Summary: "The reading end of the pipe is closed. Then clients cause 3,000 log lines, and the server is stopped with SIGTERM.",
			Run:     inject(func(r *run) { unwritable(r, func(pipe *os.File) { r.Must(pipe.Close()) }) }), Claims: claims, Controls: without(stillServes, "log-pipe"),
		},
	}
}

// unwritable starts a server whose standard error is a pipe that is not read, and checks that the server still works. It
// passes the reading end of the pipe to the function harm, which may close it.
func unwritable(r *run, harm func(pipe *os.File)) {
	dir := filepath.Join(r.TempDir(), "data")
	r.store("sqlite:"+filepath.Join(dir, "shortener.db"), "LOG_LEVEL=debug")
	reader, writer, err := os.Pipe()
	r.Must(err)
	server := r.server()
	server.Errors = writer
	server.Start()
	r.Must(writer.Close()) // the server has its own descriptor
	harm(reader)
	r.strike(1)
	err = causeLines(r, server, dir)
	answered := "every request that causes a log line was answered"
	if err != nil {
		answered = fmt.Sprintf("a request that causes a log line was not answered as expected (%v)", err)
	}
	r.must(stillServes, err == nil && !server.Ended(), "%s; %s", answered, running(server))
	lab.Wait(r, patient, "the server is ready again", func() bool { return server.TryReady(r.Context()) == nil })
	load := r.start(server, 50)
	lab.Pause(r, time.Second+r.Lasting(10*time.Second))
	r.serve(load)
	dropped := server.Counter("log_lines_dropped_total")
	r.saw(dropsLines, dropped > 0, "the server counted %g dropped log lines", dropped)

	server.Signal(syscall.SIGTERM)
	ended := lab.Happens(r, 10*time.Second, server.Ended)
	r.must(endsInTime, ended, "within 10 s after SIGTERM, the server %s", either(ended, "ended", "did not end"))
	status := server.Exit(patient)
	r.saw(endsInTime, status == 0, "the server ended with status %d", status)
	server.Errors = nil
	server.Start()
	r.end(server)
	_ = reader.Close() // in row 30b, harm has closed it already
}

// causeLines sends 3,000 requests, each of which causes a line in the log. The queue of the log (1,024 lines) and the pipe
// together cannot hold 3,000 lines. causeLines moves the database away first: without a database, each request to
// /readyz causes a line at level debug.
func causeLines(r *run, server *lab.Program, dir string) error {
	const lines = 3000
	r.Must(os.Rename(dir, dir+".away"))
	defer func() { r.Must(os.Rename(dir+".away", dir)) }()
	lab.Wait(r, patient, "the server is not ready", func() bool { return server.TryReady(r.Context()) != nil })
	for range lines {
		if err := server.TryReady(r.Context()); err == nil || !strings.Contains(err.Error(), "503 ") {
			return fmt.Errorf("GET /readyz: %w", err)
		}
	}
	return nil
}
