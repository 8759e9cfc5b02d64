package kgstest

import (
	"testing"

	"keypool/kgs/codespace"
	"keypool/kgs/keysource"
)

// TestGeneratorSuiteDetectsRepeatedCodes is the control of [TestGenerator]. Random codes from a space of 238,328
// codes repeat, and the suite must detect this.
func TestGeneratorSuiteDetectsRepeatedCodes(t *testing.T) {
	t.Parallel()
	if repeated(drawAtOnce(t, keysource.Random{Length: func() int { return codespace.MinLength }})) == 0 {
		t.Error("32 goroutines drew random codes of 3 characters, and no code occurred twice")
	}
}
