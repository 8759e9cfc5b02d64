package app

import (
	"bytes"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxLines is the number of log lines that may wait for standard error. A line has a few hundred bytes.
	maxLines = 1024
	// flushTime is the maximum time for which close waits until standard error has accepted the waiting lines.
	flushTime = time.Second
)

// lines writes log lines to standard error without blocking the caller. If standard error is a pipe that is not read, up to maxLines
// lines wait, and further lines are dropped and counted. A line is also dropped if the write to standard error fails. lines is safe
// for concurrent use.
type lines struct {
	out     io.Writer
	queue   chan []byte
	dropped prometheus.Counter
	stop    chan struct{}
	stopped chan struct{}
}

// startLines starts a goroutine that writes lines to out. The method close stops the goroutine.
func startLines(out io.Writer) *lines {
	l := &lines{
		out: out, queue: make(chan []byte, maxLines), stop: make(chan struct{}), stopped: make(chan struct{}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "log_lines_dropped_total",
			Help: "Log lines that were not written, because standard error is closed or is a pipe that is not read.",
		}),
	}
	go l.run()
	return l
}

// Write implements [io.Writer]. It never returns an error, because slog would ignore the error.
func (l *lines) Write(line []byte) (int, error) {
	select {
	case l.queue <- bytes.Clone(line):
	default:
		l.dropped.Inc()
	}
	return len(line), nil
}

func (l *lines) run() {
	defer close(l.stopped)
	for {
		select {
		case line := <-l.queue:
			l.put(line)
		case <-l.stop:
			for len(l.queue) > 0 { // run is the only reader
				l.put(<-l.queue)
			}
			return
		}
	}
}

func (l *lines) put(line []byte) {
	if _, err := l.out.Write(line); err != nil {
		l.dropped.Inc()
	}
}

// close writes the waiting lines. If they are not written after flushTime, close returns, and the remaining lines are lost.
func (l *lines) close() {
	close(l.stop)
	select {
	case <-l.stopped:
	case <-time.After(flushTime):
	}
}

// countedLog is a log handler that also holds the counter of dropped lines, so that newCore can register the counter. Loggers that
// are derived from the log keep the counter.
type countedLog struct {
	slog.Handler

	dropped prometheus.Collector
}

// WithAttrs implements [slog.Handler].
func (l countedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return countedLog{l.Handler.WithAttrs(attrs), l.dropped}
}

// WithGroup implements [slog.Handler].
func (l countedLog) WithGroup(name string) slog.Handler {
	return countedLog{l.Handler.WithGroup(name), l.dropped}
}
