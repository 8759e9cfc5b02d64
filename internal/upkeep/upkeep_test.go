package upkeep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"keypool/internal/upkeep"
)

// While a part runs, other processes cannot write to an SQLite file. They need the time between the parts.
func TestFunctionInPartsPausesBetweenParts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		part, want time.Duration // want is the time of three parts and two pauses
	}{
		"fast": {100 * time.Millisecond, 500 * time.Millisecond},
		"slow": {2 * time.Second, 6*time.Second + 2*upkeep.MaxPause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := 0
				do := func(context.Context) (int, error) {
					parts++
					time.Sleep(tt.part)
					return 10 - parts/3, nil // the third part has fewer than 10 rows
				}
				begin := time.Now()
				if err := upkeep.InParts(t.Context(), 10, time.Minute, do); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took != tt.want || parts != 3 {
					t.Errorf("%d parts took %v, want 3 in %v", parts, took, tt.want)
				}
			})
		})
	}
}

func TestFunctionInPartsEndsWithContextDuringPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		parts := 0
		err := upkeep.InParts(ctx, 1, time.Minute, func(context.Context) (int, error) {
			parts++
			time.Sleep(100 * time.Millisecond)
			return 1, nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || parts != 1 {
			t.Errorf("InParts = %v after %d parts, want DeadlineExceeded after 1 part", err, parts)
		}
	})
}
