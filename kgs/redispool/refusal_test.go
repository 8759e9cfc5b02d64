package redispool

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/kgs"
)

// refusing returns a filler whose pool has 100 keys and is in a Redis of its own. The function need sets how many replicas
// Redis must have to accept writes. This Redis has no replica, so it refuses writes after need("1"), and accepts writes
// after need("0").
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

// A filler that must begin an epoch waits until Redis accepts writes, because each attempt would leave rows in the
// ledger for ever. When Redis accepts writes, the filler begins the epoch at once.
func TestFillerBeginsNoEpochWhileRedisRefusesToOpenPool(t *testing.T) {
	t.Parallel()
	for name, needEpoch := range map[string]func(d fixture) error{
		"pool is lost": func(d fixture) error { return d.client.FlushDB(d.t.Context()).Err() },
		"pool is in another epoch": func(d fixture) error {
			_, _, err := d.OpenEpoch(d.t.Context(), 1, "another pool")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s, need := refusing(t)
			if err := needEpoch(d); err != nil {
				t.Fatal(err)
			}
			before, err := d.Epoch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			need("1")
			for range 20 {
				if err := s.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "NOREPLICAS") {
					t.Fatalf("Prepare = %v, want NOREPLICAS", err)
				}
			}
			if after, err := d.Epoch(t.Context()); err != nil || after != before || s.refused.since.IsZero() {
				t.Errorf("after 20 attempts, the epoch is %+v (error %v) and the first refusal is at %v, want the epoch %+v and a refusal", after, err, s.refused.since, before)
			}
			need("0")
			d.wantSize(s, 0)
			d.fill(s, 10, 10)
			if !s.refused.since.IsZero() {
				t.Error("the series of refusals does not end with the new epoch")
			}
		})
	}
}

// A filler with an outdated status of the pool must not begin an epoch in the ledger, because Redis would refuse to open
// the pool.
func TestFillerBeginsNoEpochForOutdatedStatus(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s := d.open("a")
	if err := s.openEpoch(t.Context(), 1, Status{RunID: "another run"}); !errors.Is(err, kgs.ErrNoEpoch) {
		t.Errorf("openEpoch with an outdated status: %v, want ErrNoEpoch", err)
	}
	d.wantEpoch(s, 1)
}

// A Redis without enough replicas refuses writes but answers reads. The number of keys in the pool then does not change,
// so the dead man's switch detects no problem. Therefore the refusals must raise the alarm.
func TestRedisThatRefusesToWriteRaisesAlarm(t *testing.T) {
	t.Parallel()
	_, s, need := refusing(t)
	prepare := func() (cause string, err error) {
		s.claimed = time.Time{} // so that Prepare calls Claim again
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
	s.refused.since = s.refused.since.Add(-refusedAfter)
	if cause, err := prepare(); err == nil || !strings.Contains(cause, "NOREPLICAS") {
		t.Errorf("later, Prepare returns %v and the alarm has the cause %q, want an error and NOREPLICAS", err, cause)
	}
	need("0")
	if _, err := prepare(); err != nil || !s.refused.since.IsZero() {
		t.Errorf("after the repair, Prepare returns %v and the first refusal is %v, want no error and no refusal", err, s.refused.since)
	}
}

// A Redis at its memory limit refuses pushes but still gives keys. The refusals must raise the alarm before the pool is
// low.
func TestRedisThatRefusesPushesOrTakesRaisesAlarm(t *testing.T) {
	t.Parallel()
	d, s, _ := refusing(t)
	p := s.cfg.Pool
	wantCause := func(want string) {
		t.Helper()
		if status, err := p.Status(t.Context()); err != nil || !strings.Contains(status.Cause, want) || (status.Cause == "") != (want == "") {
			t.Errorf("Status = %+v, %v, want an alarm with the cause %q", status, err, want)
		}
	}
	if err := d.client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	push := func() {
		if n, err := s.Fill(t.Context(), 10); err == nil {
			t.Errorf("Fill pushes %d keys into a full Redis", n)
		}
	}
	push()
	wantCause("")
	s.full.since = s.full.since.Add(-refusedAfter)
	push()
	wantCause("refuses new keys: OOM")
	*p.cfg.Alarm = Alarm{}
	if err := d.client.Do(t.Context(), "ACL", "SETUSER", "default", "-lpop").Err(); err != nil {
		t.Fatal(err)
	}
	take := func() {
		if b, err := p.Take(t.Context(), 10); err == nil {
			t.Errorf("Take = %v, although the user may not remove keys", b)
		}
	}
	take()
	wantCause("")
	p.refused.since = p.refused.since.Add(-refusedAfter)
	take()
	wantCause("refuses to give keys: ERR The user")
}

func TestRefusalsThatAreFarApartAreSeparateSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r refusal
		var alarm Alarm
		refuse := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			r.note(redis.Nil, &alarm, "refused")
			if got := alarm.cause(); got != want {
				t.Errorf("the cause of the alarm is %q, want %q", got, want)
			}
		}
		refuse(0, "")
		refuse(time.Hour, "")
		refuse(refusedAfter, "refused: "+redis.Nil.Error())
		refuse(alarmTime+time.Second, "refused: "+redis.Nil.Error()) // the alarm has ended, but not the series
	})
}
