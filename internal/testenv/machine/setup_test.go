package machine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv/machine"
)

func TestJumpClockSetsServerClock(t *testing.T) {
	t.Parallel()
	setup := machine.Setup{Clock: true}
	for name, engine := range map[string]struct {
		run starter
		now func(t *testing.T, s *machine.Server) time.Time
	}{
		"redis":    {setup.StartRedis, redisNow},
		"postgres": {setup.StartPostgres, postgresNow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, engine.run)
			for _, jump := range []time.Duration{0, time.Hour, -time.Hour, 0} {
				if err := s.JumpClock(jump); err != nil {
					t.Fatal(err)
				}
				if off := time.Until(engine.now(t, s)) - jump; off.Abs() > time.Minute {
					t.Errorf("after a jump by %v the clock is off by %v", jump, off)
				}
			}
			if err := errors.Join(s.JumpClock(time.Hour), s.Kill(), s.Restart(t.Context())); err != nil {
				t.Fatal(err)
			}
			if off := time.Until(engine.now(t, s)) - time.Hour; off.Abs() > time.Minute {
				t.Errorf("after a restart the clock is off by %v", off)
			}
		})
	}
}

func TestJumpClockFailsIfServerHasNoOwnClock(t *testing.T) {
	t.Parallel()
	if err := start(t, machine.StartRedis).JumpClock(time.Hour); err == nil {
		t.Error("JumpClock gave no error for a server without its own clock")
	}
}

func redisNow(t *testing.T, s *machine.Server) time.Time {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer client.Close()
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func postgresNow(t *testing.T, s *machine.Server) (now time.Time) {
	t.Helper()
	query(t, s.URL, "SELECT clock_timestamp()", &now)
	return now
}

// query runs a query that gives one value.
func query(t *testing.T, url, sql string, value any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	err = conn.QueryRow(t.Context(), sql).Scan(value)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestPromotedStandbyAcceptsWrites(t *testing.T) {
	t.Parallel()
	primary := start(t, machine.StartPostgres)
	execute(t, primary.URL, "CREATE TABLE links (code text)")
	standby := start(t, func(ctx context.Context, settings ...string) (*machine.Server, error) {
		return machine.StartStandby(ctx, primary, settings...)
	}, "recovery_min_apply_delay=1h")
	execute(t, primary.URL, "INSERT INTO links VALUES ('late')")
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	var n int
	if query(t, standby.URL, "SELECT count(*) FROM links", &n); n != 0 {
		t.Errorf("a standby that lags by an hour has %d rows, want 0", n)
	}
	if err := machine.Promote(t.Context(), standby); err != nil {
		t.Fatal(err)
	}
	if rows := execute(t, standby.URL, "INSERT INTO links VALUES ('new')"); rows != 1 {
		t.Errorf("the promoted standby inserted %d rows, want 1", rows)
	}
}
