package ui

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// During an outage every request fails, so the pages log at most one failure a minute.
func TestUILogsAtMostOneFailureAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		u := New(Config{Base: "/links", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		x := &exchange{r: httptest.NewRequestWithContext(t.Context(), "GET", "/links/", nil)}
		for range 2 {
			for range 100 {
				u.warn(x, "answer the request", errors.New("the database is down"))
			}
			time.Sleep(time.Minute)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines in two minutes, want 2", n)
		}
	})
}
