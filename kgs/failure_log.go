package kgs

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// FailureLog logs the first failure in a series of failures of a recurring task, and the success that ends the series.
// A FailureLog from [NewReminder] logs at most one failure per interval (the argument every). So it logs several failures
// of a long series. If successes often interrupt the failures, it does not log the first failure of every series.
// FailureLog is not safe for concurrent use.
type FailureLog struct {
	log     *slog.Logger
	task    string // name of the task in the log, such as "refill the pool"
	failing bool   // whether a failure was logged and no success followed it
	every   time.Duration
	logged  time.Time // time of the last failure that was logged
}

// NewFailureLog returns a FailureLog for the given task.
func NewFailureLog(log *slog.Logger, task string) FailureLog { return FailureLog{log: log, task: task} }

// NewReminder returns a FailureLog that logs a failure again while the task fails. The argument every is the shortest
// time between two logged failures.
func NewReminder(log *slog.Logger, task string, every time.Duration) FailureLog {
	return FailureLog{log: log, task: task, every: every}
}

// Note records the result of one attempt. A nil err means success. An attempt that was cancelled because the program
// stops is neither a failure nor a success.
func (f *FailureLog) Note(err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil && f.due():
		f.log.Warn("recurring task failed", slog.String("task", f.task), slog.Any("error", err))
		f.failing, f.logged = true, time.Now()
	case err == nil && f.failing:
		f.log.Info("recurring task works again", slog.String("task", f.task))
		f.failing = false
	}
}

// due reports whether Note logs a failure that occurs now.
func (f *FailureLog) due() bool {
	if f.every == 0 {
		return !f.failing
	}
	return time.Since(f.logged) >= f.every
}
