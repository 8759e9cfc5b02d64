package kgstest

import (
	"testing"

	"keypool/kgs/codespace"
	"keypool/kgs/keysource"
)

// The control: chance among 238,328 codes does repeat itself, and that is noticed.
func TestGeneratorTestFindsRepeatedCodes(t *testing.T) {
	t.Parallel()
	if repeated(drawAtOnce(t, keysource.Random{Length: func() int { return codespace.MinLength }})) == 0 {
		t.Error("32 takers of random codes of 3 characters found no code twice")
	}
}
