package simulate

import (
	"testing"
	"testing/synctest"
	"time"
)

// virtually calls f on a virtual clock. The clock stands still while a goroutine that f started can run. When
// all these goroutines wait, the clock jumps to the time of the next timer. In these goroutines, package time
// and contexts with deadlines use the virtual clock, so the code of the product runs unchanged. All goroutines
// that f starts must end before f returns. While one of these goroutines waits for a goroutine outside f, for the
// network or for the disk, the clock stands still.
//
// Package synctest needs a testing.T, which it uses only to report failures. f reports none.
func virtually(f func()) {
	synctest.Test(new(testing.T), func(*testing.T) { f() })
}

// pause waits for a duration of the virtual clock.
func pause(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the virtual clock jumps, so the call returns at once
}
