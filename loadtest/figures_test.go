package loadtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecorderCountsStatesAndLatencies(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	for ms := range 1000 {
		r.add(Acknowledged, time.Duration(ms+1)*time.Millisecond)
	}
	r.add(Unknown, time.Hour)
	r.add(Refused, 0)
	r.add(Unsent, 0)
	got := r.Figures()
	counts := got
	counts.Latency = Latency{}
	if diff := cmp.Diff(Figures{Sent: 1002, Acknowledged: 1000, Refused: 1, Unknown: 1, Unsent: 1}, counts); diff != "" {
		t.Errorf("the figures differ (-want +got):\n%s", diff)
	}
	// The histogram keeps three significant digits.
	near := func(got, want time.Duration) bool { return got >= want && got <= want+want/500 }
	l := got.Latency
	if !near(l.P50, 500*time.Millisecond) || !near(l.P99, 991*time.Millisecond) || !near(l.P999, time.Second) || !near(l.Max, 10*time.Minute) {
		t.Errorf("the latencies are %v, want 500 ms, 991 ms, 1 s and 10 min", l)
	}
}
