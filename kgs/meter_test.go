package kgs

import (
	"testing"
	"time"
)

func TestMeterSmoothsRateOfCountThatGrowsInSteps(t *testing.T) {
	t.Parallel()
	m := NewMeter(time.Minute)
	now := time.Now()
	total := int64(1_000_000) // the meter must ignore the count before its first sample
	for i := range 600 {
		if i%10 == 9 { // a step of 1,000 every 10 s is 100 a second
			total += 1000
		}
		now = now.Add(time.Second)
		m.Sample(total, now)
		if rate := m.Rate(); i > 20 && (rate < 60 || rate > 140) {
			t.Fatalf("the rate is %v after %d s, want about 100", rate, i)
		}
	}
	for range 60 {
		now = now.Add(10 * time.Second)
		m.Sample(total, now)
	}
	if rate := m.Rate(); rate > 0.1 {
		t.Errorf("the rate is %v ten minutes after the last step, want at most 0.1", rate)
	}
	m.Sample(total+60_000, now.Add(time.Hour))
	if rate := m.Rate(); rate < 16 || rate > 17 {
		t.Errorf("the rate is %v after an hour without samples, want 60,000 / 3600 s", rate)
	}
}

// The rate depends only on the growth within the window, even after a long time without growth.
func TestWindowRateIgnoresGrowthBeforeWindow(t *testing.T) {
	t.Parallel()
	w := NewWindow(5 * time.Second)
	now, total := time.Now(), int64(1_000_000)
	if rate := w.Rate(); rate != 0 {
		t.Errorf("the rate is %v without a sample, want 0", rate)
	}
	for _, tt := range []struct {
		seconds int
		growth  int64 // growth of the count per second
	}{{60, 20}, {600, 0}, {60, 20}} {
		for second := range tt.seconds {
			w.Sample(total, now)
			total, now = total+tt.growth, now.Add(time.Second)
			if rate := w.Rate(); second > 5 && rate != float64(tt.growth) {
				t.Fatalf("after %d s with %d events per second, the rate is %v", second, tt.growth, rate)
			}
		}
	}
	if len(w.samples) > 6 {
		t.Errorf("the window holds %d samples, want at most 6", len(w.samples))
	}
}
