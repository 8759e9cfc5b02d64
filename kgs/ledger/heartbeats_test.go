package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestHolderIsDeadIfHeartbeatCountDoesNotChange(t *testing.T) {
	var b heartbeats
	now := time.Now()
	look := func(after time.Duration, counts ...int64) []string {
		now = now.Add(after)
		var present []heartbeat
		for i, count := range counts {
			present = append(present, heartbeat{fmt.Sprint("holder ", i), count})
		}
		return b.observe(now, present)
	}
	look(0, 1, 1)
	for i := range int64(deadAfter - 1) {
		if dead := look(HeartbeatInterval, 2+i, 1); len(dead) > 0 {
			t.Fatalf("after %d looks, the dead holders are %v, want none", i+1, dead)
		}
	}
	// A call of look too soon after the last look does not count. A late call counts as one look.
	for range 100 {
		if dead := look(time.Millisecond, 9, 1); len(dead) > 0 {
			t.Fatalf("the dead holders are %v, although they had no time for a heartbeat", dead)
		}
	}
	for range 2 { // look returns the holder again until forget is called
		if dead := look(time.Hour, 9, 1); !slices.Equal(dead, []string{"holder 1"}) {
			t.Errorf("the dead holders are %v, want only the holder whose heartbeat count did not change", dead)
		}
	}
	b.forget([]string{"holder 1"})
	if dead := look(time.Hour, 9, 1); len(dead) > 0 {
		t.Errorf("after a long sleep of this process, the dead holders are %v, want none", dead)
	}
	if dead := look(HeartbeatInterval, 9, 2); len(dead) > 0 {
		t.Errorf("the dead holders are %v, want none", dead)
	}
}

// A live holder may miss several heartbeats, so quiet waits until Sweep would declare the holder dead.
func TestLedgerIsInUseWhileHeartbeatIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			next time.Duration // the time of the next heartbeat
			want error
		}{{HeartbeatInterval / 2, ErrInUse}, {(deadAfter - 1) * HeartbeatInterval, ErrInUse}, {time.Hour, nil}} {
			begun := time.Now()
			beats, err := quiet(t.Context(), func(context.Context) (map[string]int64, error) {
				if time.Since(begun) >= tt.next {
					return map[string]int64{"late": 2}, nil
				}
				return map[string]int64{"late": 1}, nil
			})
			if !errors.Is(err, tt.want) {
				t.Errorf("with the next heartbeat after %v, quiet returned %v, %v; want %v",
					tt.next, beats, err, tt.want)
			}
			if took := time.Since(begun); err == nil && took != deadAfter*HeartbeatInterval {
				t.Errorf("quiet took %v, want %v", took, deadAfter*HeartbeatInterval)
			}
		}
		if beats, err := quiet(t.Context(), func(context.Context) (map[string]int64, error) { return nil, nil }); beats != nil || err != nil {
			t.Errorf("quiet without a holder = %v, %v, want nil", beats, err)
		}
	})
}
