package alert

import (
	"context"
	"log/slog"
	"time"
)

// Run delivers alerts until ctx ends, and then attempts once more each alert that waits, for 2 s
// at most. It returns nil.
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

// wait returns when the next attempt is due; false when ctx has ended.
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

// deliverLast attempts each alert that waits once, in order, up to the first failure.
func (a *Alerter) deliverLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	for next := a.front(); next != nil; next = a.front() {
		if !a.deliver(ctx, next, true) {
			a.cfg.Logger.Error("alerts lost: the process ends before the webhook took them", slog.Int("alerts", a.waiting()))
			return
		}
	}
}

// deliver attempts once, and takes a delivered alert off the queue. It logs the first failure of
// a series as a warning, and the others at debug level.
func (a *Alerter) deliver(ctx context.Context, next *alert, first bool) bool {
	if err := a.post(ctx, next); err != nil {
		a.outcomes.WithLabelValues("failed").Inc()
		level := slog.LevelDebug
		if first {
			level = slog.LevelWarn
		}
		a.cfg.Logger.Log(ctx, level, "deliver alert to webhook", slog.String("state", string(next.State)), slog.Any("error", err))
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
