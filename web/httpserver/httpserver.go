// Package httpserver limits what one client can hold of an HTTP server.
package httpserver

import (
	"log/slog"
	"net/http"
	"time"
)

// adminWriteTimeout allows a profile of some minutes; the default profile takes 30 seconds.
const adminWriteTimeout = 5 * time.Minute

// New returns a server for h. Each phase of a connection has a time limit and headers
// have a size limit, so a slow, huge or silent client cannot hold the server. Errors that
// net/http reports about clients go to log at level DEBUG.
func New(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second, // starts at the end of the headers, so it exceeds ReadTimeout
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// NewAdmin returns a server for the admin handler: as New, but with a write timeout that
// allows profiles.
func NewAdmin(h http.Handler, log *slog.Logger) *http.Server {
	s := New(h, log)
	s.WriteTimeout = adminWriteTimeout
	return s
}
