package testbed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errMissing = errors.New("it is not there")

func TestUntil(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		look func(n int) (done bool, err error) // of the n-th look
		want []error
		took time.Duration
	}{
		{"at once", func(int) (bool, error) { return true, nil }, nil, 0},
		{"at the third look", func(n int) (bool, error) { return n == 3, nil }, nil, 2 * time.Second},
		{"given up", func(n int) (bool, error) { return n == 2, errMissing }, []error{errMissing}, time.Second},
		{"never", func(int) (bool, error) { return false, errMissing }, []error{context.DeadlineExceeded, errMissing}, 10 * time.Second},
		{"never, and nobody knows why", func(int) (bool, error) { return false, nil }, []error{context.DeadlineExceeded}, 10 * time.Second},
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
						t.Errorf("%v, want it to tell: %v", err, want)
					}
				}
				if took := time.Since(began); (err == nil) != (tt.want == nil) || took != tt.took {
					t.Errorf("%v after %v, want it after %v", err, took, tt.took)
				}
			})
		})
	}
}

// A look that the end of the wait broke off does not hide what was missing before.
func TestUntilKeepsWhatWasMissing(t *testing.T) {
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
			t.Errorf("%v, want it to tell: %v", err, errMissing)
		}
	})
}

func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Pause(t.Context(), time.Second); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v, want a second", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Pause(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v, want an end after another second", err, time.Since(began))
		}
	})
}
