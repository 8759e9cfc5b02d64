package httpserver

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// errorLog is the handler of the messages of net/http. The text of a message decides its level,
// because net/http gives its messages no levels:
//
//   - ERROR for a panic of a handler;
//   - WARN, at most once a minute, if no connection can be accepted, for example because the process
//     has too many open files. net/http tries again about once a second;
//   - DEBUG for every other message, because most of them are errors of clients.
type errorLog struct {
	slog.Handler
	accept *rate.Sometimes
}

func newErrorLog(h slog.Handler) errorLog {
	return errorLog{h, &rate.Sometimes{Interval: time.Minute}}
}

// Enabled returns true for every level, because Handle sets the level.
func (errorLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (l errorLog) Handle(ctx context.Context, r slog.Record) (err error) {
	switch {
	case strings.HasPrefix(r.Message, "http: panic serving"), strings.HasPrefix(r.Message, "http2: panic serving"):
		r.Level = slog.LevelError
	case strings.HasPrefix(r.Message, "http: Accept error"):
		r.Level = slog.LevelWarn
		l.accept.Do(func() { err = l.pass(ctx, r) })
		return err
	}
	return l.pass(ctx, r)
}

func (l errorLog) pass(ctx context.Context, r slog.Record) error {
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}
