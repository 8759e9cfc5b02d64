package kgs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A reminder logs the failure again while the task fails. It logs at most one failure a minute, even if successes
// interrupt the failures.
func TestReminderLogsAtMostOneFailurePerMinute(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		between error // result between two failures
		works   int   // number of log lines about a success
	}{
		"only failures occur":              {errors.New("disk full"), 1},
		"successes interrupt the failures": {nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				f := NewReminder(slog.New(slog.NewTextHandler(&log, nil)), "test", time.Minute)
				for range 3 * 60 / 2 { // three minutes
					f.Note(errors.New("disk full"))
					time.Sleep(time.Second)
					f.Note(tt.between)
					time.Sleep(time.Second)
				}
				f.Note(nil)
				if n := strings.Count(log.String(), "level=WARN"); n != 3 {
					t.Errorf("%d warnings, want 3:\n%s", n, &log)
				}
				if n := strings.Count(log.String(), "works again"); n != tt.works {
					t.Errorf("%d lines about a success, want %d:\n%s", n, tt.works, &log)
				}
			})
		})
	}
}

// When the program stops, it cancels attempts. A canceled attempt is not a failure.
func TestFailureLogIgnoresCanceledAttempt(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := NewFailureLog(slog.New(slog.NewTextHandler(&log, nil)), "test")
	f.Note(fmt.Errorf("query: %w", context.Canceled))
	if log.Len() > 0 {
		t.Errorf("the log after a canceled attempt: %s", &log)
	}
	f.Note(fmt.Errorf("query: %w", context.DeadlineExceeded))
	f.Note(fmt.Errorf("query: %w", context.Canceled))
	if log := log.String(); strings.Count(log, "level=WARN") != 1 || strings.Contains(log, "works again") {
		t.Errorf("the log after a timeout and a canceled attempt: %s, want one warning", log)
	}
}
