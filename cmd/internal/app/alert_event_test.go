package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/cmd/internal/alert"
	"keypool/kgs"
	"keypool/kgs/refill"
)

// An alert contains the number of keys in the pool and the runway of the pool, as the dead man's switch observes them.
// The runway is the time until the pool is empty. An unknown value is null.
func TestAlertEventOmitsUnknownNumberOfKeysAndUnknownRunway(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	keys, runway := int64(50), 12.5
	pool := refill.Observation{PoolStatus: kgs.PoolStatus{Keys: keys}}
	for _, tt := range []struct {
		name      string
		judgement refill.Judgement
		want      alert.Event
	}{
		{"known", refill.Judgement{State: refill.StatePage, Since: at, Known: true, Pool: pool, Rate: 4},
			alert.Event{State: "page", At: at, PoolKeys: &keys, RunwaySeconds: &runway}},
		{"nothing taken", refill.Judgement{State: refill.StateOK, Since: at, Known: true, Pool: pool},
			alert.Event{State: "ok", At: at, PoolKeys: &keys}},
		{"pool unknown", refill.Judgement{State: refill.StateRestart, Since: at, Pool: pool, Rate: 4},
			alert.Event{State: "restart", At: at}},
	} {
		if diff := cmp.Diff(tt.want, alertEvent(tt.judgement)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
