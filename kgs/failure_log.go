package kgs

import "log/slog"

// FailureLog logs the first failure in a series of failures of a recurring task, and the success
// that ends the series. It does not log the other failures. It is not safe for concurrent use.
type FailureLog struct {
	log     *slog.Logger
	task    string // for example "refill the pool"
	failing bool
}

// NewFailureLog returns a FailureLog for the given task.
func NewFailureLog(log *slog.Logger, task string) FailureLog { return FailureLog{log: log, task: task} }

// Note records the result of one attempt. A nil err means success.
func (f *FailureLog) Note(err error) {
	switch {
	case err != nil && !f.failing:
		f.log.Warn("recurring task failed", slog.String("task", f.task), slog.Any("error", err))
	case err == nil && f.failing:
		f.log.Info("recurring task works again", slog.String("task", f.task))
	}
	f.failing = err != nil
}
