package slots_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"keypool/internal/slots"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func wantBusy(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, slots.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want ErrBusy with DeadlineExceeded", err)
	}
}

// begin takes a slot within a second.
func begin(t *testing.T, s *slots.Slots[int64], token int64) (end func()) {
	t.Helper()
	end, err := s.Begin(t.Context(), token, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// One token gets at most half of the slots. A request waits for a slot only for the given
// time.
func TestOneTokenGetsAtMostHalfOfSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slots.New[int64](4)
		first := []func(){begin(t, s, 1), begin(t, s, 1)}
		_, err := s.Begin(t.Context(), 1, time.Second)
		wantBusy(t, err)
		second := []func(){begin(t, s, 2), begin(t, s, 2)}
		began := time.Now()
		_, err = s.Begin(t.Context(), 3, time.Second)
		wantBusy(t, err)
		if took := time.Since(began); took != time.Second {
			t.Errorf("a request waited for %v, want 1 s", took)
		}
		time.AfterFunc(time.Second/2, first[0])
		third := begin(t, s, 3)
		for _, end := range append(second, first[1], third) {
			end()
		}
		for _, token := range []int64{1, 2, 1, 2} { // all slots are free again
			begin(t, s, token)
		}
	})
}

// However many requests of two tokens wait, the request of a third token waits for at most one query of these tokens.
func TestRequestWaitsForAtMostOneQueryOfOtherTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slots.New[int64](2)
		const query = 100 * time.Millisecond
		for range 1000 {
			for token := range int64(2) {
				go func() {
					if end, err := s.Begin(context.Background(), token, time.Second); err == nil {
						time.Sleep(query)
						end()
					}
				}()
			}
		}
		synctest.Wait()
		began := time.Now()
		begin(t, s, 9)()
		if took := time.Since(began); took > query {
			t.Errorf("the request waited for %v, longer than for one query of another token", took)
		}
		time.Sleep(time.Minute)
	})
}

// New(0) returns one slot, which every token may use.
func TestNewSlotsContainAtLeastOneSlot(t *testing.T) {
	t.Parallel()
	s := slots.New[int64](0)
	begin(t, s, 1)()
	begin(t, s, 2)()
}
