package loadtest

import (
	"context"
	"time"
)

// Schedule is an open loop: requests are due at a constant rate, whatever became of
// the ones before.
type Schedule struct {
	Rate     float64       // requests per second, above 0
	Duration time.Duration // 0: until the context ends
}

// due is when request n is to be sent, counted from the start.
func (s Schedule) due(n int) time.Duration {
	return time.Duration(float64(n) / s.Rate * float64(time.Second))
}

// follow calls send for each request at its intended time, one after the other, or as
// soon after as it can: a sender that was held up catches up, with the times that were
// intended. It ends with the schedule or ctx (no error), or when send fails.
func (s Schedule) follow(ctx context.Context, send func(intended time.Time) error) error {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		due := s.due(n)
		if s.Duration > 0 && due >= s.Duration {
			return nil
		}
		intended := start.Add(due)
		if wait := time.Until(intended); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return nil
			}
		} else if ctx.Err() != nil {
			return nil
		}
		if err := send(intended); err != nil {
			return err
		}
	}
}
