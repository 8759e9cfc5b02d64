package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errMissing = errors.New("the thing is missing")

func TestUntilEndsWhenDoneOrAtLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		look func(n int) (done bool, err error) // the result of call n of look
		want []error
		took time.Duration
	}{
		{"look is done at once", func(int) (bool, error) { return true, nil }, nil, 0},
		{"look is done at the third call", func(n int) (bool, error) { return n == 3, nil }, nil, 2 * time.Second},
		{"look is done with an error", func(n int) (bool, error) { return n == 2, errMissing }, []error{errMissing}, time.Second},
		{"look is never done", func(int) (bool, error) { return false, errMissing }, []error{context.DeadlineExceeded, errMissing}, 10 * time.Second},
		{"look is never done and returns no error", func(int) (bool, error) { return false, nil }, []error{context.DeadlineExceeded}, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, n := time.Now(), 0
				err := Until(t.Context(), time.Second, 10*time.Second, func(context.Context) (bool, error) {
					n++
					return tt.look(n)
				})
				for _, want := range tt.want {
					if !errors.Is(err, want) {
						t.Errorf("Until returns the error %v, which does not wrap %v", err, want)
					}
				}
				if took := time.Since(began); (err == nil) != (tt.want == nil) || took != tt.took {
					t.Errorf("Until returns the error %v after %v, want the end after %v", err, took, tt.took)
				}
			})
		})
	}
}

// At the limit, Until cancels the running call of look. The error of the cancelled call does not replace the
// error of an earlier call.
func TestErrorOfUntilWrapsEarlierErrorWhenTimeLimitCancelsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := Until(t.Context(), time.Second, 10*time.Second, func(ctx context.Context) (bool, error) {
			if n++; n == 1 {
				return false, errMissing
			}
			<-ctx.Done()
			return false, ctx.Err()
		})
		if !errors.Is(err, errMissing) {
			t.Errorf("Until returns the error %v, which does not wrap %v", err, errMissing)
		}
	})
}

func TestWaitFailsAtLimitAndHappensReturnsFalse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRun(t)
		never := func() bool { return false }
		failures := r.do(func() {
			if Happens(r, time.Second, never) || !Happens(r, time.Second, func() bool { return true }) {
				t.Error("Happens does not report whether its condition became true")
			}
			Wait(r, time.Second, "the impossible", never)
			t.Error("Wait returned although its condition never became true")
		})
		if len(failures) != 1 || !strings.Contains(failures[0], "the impossible") {
			t.Errorf("the run has the failures %q, want one failure that names the condition", failures)
		}
	})
}

// interrupted is a Run whose context a test can end.
type interrupted struct {
	*run
	ctx context.Context
}

func (i interrupted) Context() context.Context { return i.ctx }

func TestPauseWaitsAndFailsOnInterruption(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		r := interrupted{newRun(t), ctx}
		failures := r.do(func() {
			Pause(r, 2*time.Second)
			if took := time.Since(began); took != 2*time.Second {
				t.Errorf("the pause took %v, want 2 s", took)
			}
			Pause(r, time.Minute)
			t.Error("the pause of an interrupted run returned")
		})
		if took := time.Since(began); len(failures) != 1 || took != 3*time.Second {
			t.Errorf("the run has the failures %q after %v, want one failure after 3 s", failures, took)
		}
	})
}
