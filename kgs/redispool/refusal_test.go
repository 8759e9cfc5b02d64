package redispool

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
)

// refusing returns a filler with keys in a Redis of its own. If the function need sets the number of replicas that Redis needs
// to 1, Redis refuses writes.
func refusing(t *testing.T) (d fixture, s *Filler, need func(replicas string)) {
	t.Helper()
	d = newFixture(t)
	d.client = redis.NewClient(&redis.Options{Addr: testenv.StartRedis(t).Addr})
	t.Cleanup(func() { _ = d.client.Close() }) // the server ends with the test
	s = d.open("a")
	d.fill(s, 100, 100)
	return d, s, func(replicas string) {
		t.Helper()
		if err := d.client.ConfigSet(t.Context(), "min-replicas-to-write", replicas).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// A Redis that lost the pool and refuses writes makes the filler begin an epoch again and again. The ledger keeps the rows of
// each epoch.
func TestFillerBeginsFewEpochsWhileRedisRefusesToOpenPool(t *testing.T) {
	t.Parallel()
	d, s, need := refusing(t)
	if err := d.client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	need("1")
	for range 20 {
		if err := s.Prepare(t.Context()); err == nil {
			t.Fatal("Prepare succeeds although Redis refuses to open the pool")
		}
	}
	if epoch, err := d.Epoch(t.Context()); err != nil || epoch.Number > 4 {
		t.Errorf("the ledger is in epoch %d (error %v) after 20 attempts, want at most 4", epoch.Number, err)
	}
	need("0")
	s.opens = time.Time{} // the gap has passed
	d.wantSize(s, 0)
	d.fill(s, 10, 10)
	if s.openGap != 0 {
		t.Errorf("after the repair, the gap is %v, want 0", s.openGap)
	}
}

// A Redis without enough replicas refuses writes and answers reads, so the level of the pool looks good.
func TestRedisThatRefusesToWriteRaisesAlarm(t *testing.T) {
	t.Parallel()
	_, s, need := refusing(t)
	prepare := func() (cause string, err error) {
		s.claimed = time.Time{} // the last confirmation of the owner is older than its interval
		err = s.Prepare(t.Context())
		status, statusErr := s.cfg.Pool.Status(t.Context())
		if statusErr != nil {
			t.Fatal(statusErr)
		}
		return status.Cause, err
	}
	need("1")
	if cause, err := prepare(); err == nil || cause != "" {
		t.Errorf("at first, Prepare returns %v and the alarm has the cause %q, want an error and no alarm", err, cause)
	}
	s.refused = s.refused.Add(-refusedAfter)
	if cause, err := prepare(); err == nil || !strings.Contains(cause, "NOREPLICAS") {
		t.Errorf("later, Prepare returns %v and the alarm has the cause %q, want an error and NOREPLICAS", err, cause)
	}
	need("0")
	if _, err := prepare(); err != nil || !s.refused.IsZero() {
		t.Errorf("after the repair, Prepare returns %v and the first refusal is %v, want no error and no refusal", err, s.refused)
	}
}
