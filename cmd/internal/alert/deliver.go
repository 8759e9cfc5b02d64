package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Run delivers alerts until ctx ends. Then it attempts to deliver the waiting alerts once more, in
// order, until an attempt fails or 2 s have passed. Run returns nil.
func (a *Alerter) Run(ctx context.Context) error {
	defer a.client.CloseIdleConnections()
	gap := firstGap
	for {
		next := a.front()
		var again <-chan time.Time
		switch {
		case next == nil:
			gap = firstGap
		case a.deliver(ctx, next, gap == firstGap):
			gap = firstGap
			continue
		default:
			again = time.After(gap)
			gap = min(2*gap, maxGap)
		}
		if !a.wait(ctx, again) {
			a.deliverLast(ctx)
			return nil
		}
	}
}

// wait returns true when the next attempt is due, and false when ctx ends.
func (a *Alerter) wait(ctx context.Context, again <-chan time.Time) bool {
	wake := a.wake
	if again != nil {
		wake = nil // a new alert does not shorten the gap after a failed attempt
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-again:
	}
	return true
}

// deliverLast attempts to deliver each waiting alert once, in order. It stops at the first
// failure.
func (a *Alerter) deliverLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	for next := a.front(); next != nil; next = a.front() {
		if !a.deliver(ctx, next, true) {
			a.cfg.Logger.Error("alerts lost: the process ends before the webhook accepted them", slog.Int("alerts", a.waiting()))
			return
		}
	}
}

// deliver attempts to deliver an alert once, and reports whether the webhook accepted it. After
// success, deliver removes the alert from the queue. It logs a failure as a warning if warn is true,
// and at debug level otherwise.
func (a *Alerter) deliver(ctx context.Context, next *alert, warn bool) bool {
	if err := a.post(ctx, next); err != nil {
		a.outcomes.WithLabelValues("failed").Inc()
		level := slog.LevelDebug
		if warn {
			level = slog.LevelWarn
		}
		a.cfg.Logger.Log(ctx, level, "deliver alert to webhook", slog.String("state", string(next.State)), slog.Any("error", err))
		return false
	}
	a.outcomes.WithLabelValues("taken").Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) > 0 && a.queue[0] == next { // false if enqueue dropped this alert during the attempt
		a.queue = a.queue[1:]
	}
	return true
}

// post sends an alert once. Its error does not contain the URL.
func (a *Alerter) post(ctx context.Context, next *alert) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	body, err := json.Marshal(next)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "keypool")
	resp, err := a.client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }() // only the status matters
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook answered %d, want 2xx", resp.StatusCode)
	}
	return nil
}

// withoutURL removes the URL from an error of the HTTP client, because the URL of a webhook often
// contains its password.
func withoutURL(err error) error {
	var quoting *url.Error
	if errors.As(err, &quoting) {
		return quoting.Err
	}
	return err
}
