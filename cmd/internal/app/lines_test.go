package app

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
)

// Standard error may be a pipe that is not read. This must not block the
// program.
func TestLogDropsLinesWhileStandardErrorIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		l := startLines(writer)
		const further = 10
		write(t, l, "blocked\n")
		synctest.Wait() // run has taken the first line and waits for the reader
		for range maxLines + further {
			write(t, l, "line\n")
		}
		if got := testutil.ToFloat64(l.dropped); got != further {
			t.Errorf("%g lines are dropped, want %d", got, further)
		}
		began := time.Now()
		l.close()
		if took := time.Since(began); took != flushTime {
			t.Errorf("close takes %v, want %v", took, flushTime)
		}
		if err := reader.Close(); err != nil { // ends run
			t.Error(err)
		}
	})
}

func TestCloseWritesWaitingLogLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := startLines(&out)
	line := []byte("one\n")
	if _, err := l.Write(line); err != nil {
		t.Error(err)
	}
	copy(line, "two\n") // slog reuses its buffer
	if _, err := l.Write(line); err != nil {
		t.Error(err)
	}
	l.close()
	if got := out.String(); got != "one\ntwo\n" {
		t.Errorf("written: %q, want both lines in their order", got)
	}
}

// The counter of dropped lines is also exported for a logger that With and WithGroup derive from the log.
func TestChildLoggerExportsDroppedLineCounter(t *testing.T) {
	t.Parallel()
	l := startLines(io.Discard)
	t.Cleanup(l.close)
	log := slog.New(countedLog{slog.DiscardHandler, l.dropped}).With("process", 1).WithGroup("details")
	registry := newCore(config.Common{}, &program.Lifecycle{}, log).Registry
	if n, err := testutil.GatherAndCount(registry, "log_lines_dropped_total"); n != 1 || err != nil {
		t.Errorf("the counter is exported %d times, %v; want once", n, err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestUnwritableLogLinesAreCountedAsDropped(t *testing.T) {
	t.Parallel()
	l := startLines(brokenWriter{})
	write(t, l, "line\n")
	l.close()
	if got := testutil.ToFloat64(l.dropped); got != 1 {
		t.Errorf("%g lines are dropped, want 1", got)
	}
}

func write(t *testing.T, l *lines, line string) {
	t.Helper()
	if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
}
