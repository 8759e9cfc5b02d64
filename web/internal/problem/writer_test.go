package problem

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"keypool/internal/slots"
	"keypool/shortener"
)

// During an outage, the log has one line a minute. A client that waits for slots, or that left, does not hide the outage.
func TestLogHasOneLineEachMinuteForOutageAndForBusyClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := NewWriter(nil, slog.New(slog.NewTextHandler(&log, nil)))
		c := echo.New().NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), httptest.NewRecorder())
		down := &shortener.UnavailableError{Err: errors.New("connection refused")}
		busy := &shortener.UnavailableError{Err: slots.ErrBusy}
		left, leave := context.WithCancel(t.Context())
		leave()
		gone := echo.New().NewContext(httptest.NewRequestWithContext(left, http.MethodGet, "/", nil), httptest.NewRecorder())
		ended := &shortener.UnavailableError{Err: context.Canceled}
		for range 2 {
			for range 50 {
				w.Report(ended, Of(ended), gone)
				for _, err := range []error{busy, down} {
					w.Report(err, Of(err), c)
				}
			}
			time.Sleep(time.Minute)
		}
		for text, want := range map[string]int{"connection refused": 2, slots.ErrBusy.Error(): 2, context.Canceled.Error(): 0} {
			if n := strings.Count(log.String(), text); n != want {
				t.Errorf("%d lines with %q in two minutes, want %d:\n%s", n, text, want, log.String())
			}
		}
	})
}
