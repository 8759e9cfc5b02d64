package kgs

import (
	"log/slog"
)

// FailureLog logs the first failure of a recurring task and the success that ends the failures,
// but not the failures in between. It is not safe for concurrent use.
type FailureLog struct {
	log     *slog.Logger
	task    string // for example "refill the pool"
	failing bool
}

// Note records the result of one attempt: nil for a success.
func (f *FailureLog) Note(err error) {
	switch {
	case err != nil && !f.failing:
		f.log.Warn("recurring task failed", slog.String("task", f.task), slog.Any("error", err))
	case err == nil && f.failing:
		f.log.Info("recurring task works again", slog.String("task", f.task))
	}
	f.failing = err != nil
}

// NewFailureLog returns the log of a task.
func NewFailureLog(log *slog.Logger, task string) FailureLog { return FailureLog{log: log, task: task} }
