package web

import (
	"log/slog"
	"net/http"
	"time"
)

// NewServer wraps the public handler in a server that a slow, huge or silent
// client cannot hold: every phase of a connection is bounded in time, and headers
// in size. What net/http has to say of bad clients goes to log at debug level.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second, // counted from the end of the headers, so above ReadTimeout
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// NewAdminServer is NewServer for the admin handler, whose profiles are written
// for as long as the operator asked, 30 seconds unless told otherwise.
func NewAdminServer(h http.Handler, log *slog.Logger) *http.Server {
	s := NewServer(h, log)
	s.WriteTimeout = 5 * time.Minute
	return s
}
