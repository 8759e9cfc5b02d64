// Package httpserver limits the time and the memory that one client can use, and the number of open
// connections.
package httpserver

import (
	"log/slog"
	"net/http"
	"time"
)

// adminWriteTimeout is long enough for a profile of several minutes. The default profile
// takes 30 seconds.
const adminWriteTimeout = 5 * time.Minute

// writeTimeout limits the time from the end of a header to the end of the answer. This time includes the reading of the
// body, so writeTimeout exceeds ReadTimeout.
const writeTimeout = 20 * time.Second

// New returns a server for h. Each phase of a connection has a time limit, and headers have a size limit. Therefore no
// client can occupy the server for long. An errorLog passes the messages of the server to the logger log.
func New(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           limitFields(h),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnState:         countHeaderLines,
		ErrorLog:          slog.NewLogLogger(newErrorLog(log.Handler()), slog.LevelDebug),
	}
}

// NewAdmin returns a server for the admin handler. It equals a server of New, except that
// its write timeout allows profiles.
func NewAdmin(h http.Handler, log *slog.Logger) *http.Server {
	s := New(h, log)
	s.WriteTimeout = adminWriteTimeout
	return s
}
