package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestHolderIsDeadAfterLooksWithoutHeartbeat(t *testing.T) {
	var b heartbeats
	now := time.Now()
	look := func(after time.Duration, counts ...int64) []string {
		now = now.Add(after)
		var present []heartbeat
		for i, count := range counts {
			present = append(present, heartbeat{fmt.Sprint("holder ", i), count})
		}
		return b.look(now, present)
	}
	look(0, 1, 1)
	for i := range int64(deadAfter - 1) {
		if dead := look(HeartbeatInterval, 2+i, 1); len(dead) > 0 {
			t.Fatalf("after %d looks, the dead holders are %v", i+1, dead)
		}
	}
	// Looks less than a HeartbeatInterval apart do not count. A late look counts as one look.
	for range 100 {
		if dead := look(time.Millisecond, 9, 1); len(dead) > 0 {
			t.Fatalf("the dead holders are %v, although they had no time for a heartbeat", dead)
		}
	}
	for range 2 { // the holder stays dead until the ledger has declared it dead
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
