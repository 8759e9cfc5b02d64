package loadtest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// record follows s and calls send with the number of each request. It returns the times at which the
// requests were due and at which they were sent, since the start.
func record(ctx context.Context, s Schedule, send func(n int)) (intended, actual []time.Duration) {
	start := time.Now()
	s.follow(ctx, func(at time.Time) {
		intended = append(intended, at.Sub(start))
		actual = append(actual, time.Since(start))
		send(len(actual) - 1)
	})
	return intended, actual
}

func every(step time.Duration, n int) []time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = time.Duration(i) * step
	}
	return times
}

func TestScheduleSendsRequestsAtGivenRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		intended, actual := record(t.Context(), Schedule{Rate: 100, Duration: time.Second}, func(int) {})
		if diff := cmp.Diff(every(10*time.Millisecond, 100), intended); diff != "" {
			t.Errorf("the due times differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(intended, actual); diff != "" {
			t.Errorf("requests were not sent at their due times (-due +sent):\n%s", diff)
		}
	})
}

// After a stall the schedule sends the missed requests with their original due times, so their latency
// includes the stall.
func TestScheduleSendsMissedRequestsAfterStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const stall = 45 * time.Millisecond
		intended, actual := record(t.Context(), Schedule{Rate: 100, Duration: 100 * time.Millisecond}, func(n int) {
			if n == 1 {
				time.Sleep(stall) // the stall, on the clock of synctest
			}
		})
		if diff := cmp.Diff(every(10*time.Millisecond, 10), intended); diff != "" {
			t.Errorf("the due times differ (-want +got):\n%s", diff)
		}
		want := every(10*time.Millisecond, 10)
		for n := 2; n <= 5; n++ {
			want[n] = 10*time.Millisecond + stall
		}
		if diff := cmp.Diff(want, actual); diff != "" {
			t.Errorf("the times at which requests were sent differ (-want +got):\n%s", diff)
		}
	})
}

func TestScheduleEndsWhenContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, actual := record(ctx, Schedule{Rate: 100}, func(n int) {
			if n == 9 {
				cancel()
			}
		})
		if len(actual) != 10 {
			t.Errorf("the schedule sent %d requests, want 10", len(actual))
		}
	})
}
