package simulate

import (
	"testing"
	"testing/synctest"
	"time"
)

// virtually calls f on a virtual clock. The clock stands still while a goroutine of f can run, and jumps to the
// next timer when all of them wait. It controls every use of package time by these goroutines. Therefore the
// product runs unchanged, including its contexts with deadlines and the circuit breaker of another module. All
// goroutines that f starts must end before f returns. A goroutine of f must not wait for anything outside of f.
//
// Package synctest needs a test to run in. It uses the test only to report failures, and f reports none.
func virtually(f func()) {
	synctest.Test(new(testing.T), func(*testing.T) { f() })
}

// pause waits for a duration of the virtual clock.
func pause(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // no time passes in reality
}
