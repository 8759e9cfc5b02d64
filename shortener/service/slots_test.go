package service_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"keypool/shortener/service"
)

// begin takes a slot within a second.
func begin(t *testing.T, s *service.Slots, token int64) (end func()) {
	t.Helper()
	end, err := s.Begin(t.Context(), token, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// One token gets at most half of the slots. A request waits for a slot only for the given
// time.
func TestOneTokenGetsAtMostHalfOfReadSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := service.NewSlots(4)
		first := []func(){begin(t, s, 1), begin(t, s, 1)}
		_, err := s.Begin(t.Context(), 1, time.Second)
		assertUnavailable(t, err, context.DeadlineExceeded)
		second := []func(){begin(t, s, 2), begin(t, s, 2)}
		began := time.Now()
		_, err = s.Begin(t.Context(), 3, time.Second)
		assertUnavailable(t, err, context.DeadlineExceeded)
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

// Many requests of a token do not delay the request of another token.
func TestWaitingReadsOfOneTokenDoNotDelayOtherToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := service.NewSlots(2)
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

// NewSlots(0) returns one slot, which every token may use.
func TestNewSlotsReturnsAtLeastOneSlot(t *testing.T) {
	t.Parallel()
	s := service.NewSlots(0)
	begin(t, s, 1)()
	begin(t, s, 2)()
}
