package redispool

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
)

// TestWorkerGivesUpRangeThatItCannotPush lets Redis refuse every push of a worker that stays alive. Another worker must
// get the range and push each of its numbers once.
func TestWorkerGivesUpRangeThatItCannotPush(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	s, other := d.open("a"), d.open("b")
	push := s.cfg.Pool.scripts.push
	s.cfg.Pool.scripts.push = redis.NewScript(`return redis.error_reply('NOPERM this user may not push')`)
	for range 2 {
		if _, err := s.Fill(t.Context(), 100); err == nil {
			t.Fatal("a push succeeded that must fail")
		}
	}
	if s.current == nil {
		t.Fatal("the worker gave its range up at once")
	}
	s.failing = time.Now().Add(-giveUpAfter)
	if _, err := s.Fill(t.Context(), 100); err == nil || s.current != nil {
		t.Fatalf("after a minute: error %v, current range %v; want an error and no range", err, s.current)
	}
	d.wantSize(s, 0) // Prepare sends a heartbeat under the new name
	if _, err := s.Fill(t.Context(), 100); !errors.Is(err, errRests) {
		t.Errorf("Fill = %v, want errRests", err)
	}
	d.fill(other, 50, 100)
	if got, err := d.space.Ranges(kgstest.Drain(t, other.cfg.Pool, 1000)); err != nil || len(got) != 1 || got[0] != (codespace.Range{Length: 6, Hi: 100}) {
		t.Errorf("the pool held the numbers %v (error %v), want the numbers of the range that was given up", got, err)
	}
	s.rests, s.cfg.Pool.scripts.push = time.Time{}, push
	d.fill(s, 10, 10)
}

func TestNextNameIncrementsNumberInHolderName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"host-1-AB": "host-1-AB.2", "host-1-AB.2": "host-1-AB.3", "a.b": "a.b.2", "a.b.2": "a.b.3"} {
		if got := nextName(name); got != want {
			t.Errorf("nextName(%q) = %q, want %q", name, got, want)
		}
	}
}
