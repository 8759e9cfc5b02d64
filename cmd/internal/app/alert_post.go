package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
)

// deliver tries once, and takes the alert off the queue when that worked. Only the first
// failure in a row is news.
func (a *alerter) deliver(ctx context.Context, next *alert, news bool) bool {
	if err := a.post(ctx, next); err != nil {
		a.outcomes.WithLabelValues("failed").Inc()
		level := slog.LevelDebug
		if news {
			level = slog.LevelWarn
		}
		a.log.Log(ctx, level, "the alert webhook did not take an alert", slog.String("state", string(next.State)), slog.Any("error", err))
		return false
	}
	a.outcomes.WithLabelValues("taken").Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) > 0 && a.queue[0] == next { // else it was dropped meanwhile
		a.queue = a.queue[1:]
	}
	return true
}

func (a *alerter) post(ctx context.Context, next *alert) error {
	ctx, cancel := context.WithTimeout(ctx, alertTimeout)
	defer cancel()
	body, err := json.Marshal(next)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "keypool")
	resp, err := a.client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }()       // the status is all that is wanted
	_, _ = io.CopyN(io.Discard, resp.Body, 16<<10) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("it answered %d", resp.StatusCode)
	}
	return nil
}

// withoutURL is what an error of the HTTP client says but for the URL that it quotes: a
// webhook's URL is often its password.
func withoutURL(err error) error {
	var quoting *url.Error
	if errors.As(err, &quoting) {
		return quoting.Err
	}
	return err
}
