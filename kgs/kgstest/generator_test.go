package kgstest

import (
	"testing"

	"keypool/kgs/codespace"
	"keypool/kgs/keysource"
)

// TestGeneratorTestFindsRepeatedCodes is the negative control: random codes in a space of
// 238,328 repeat, and the suite detects it.
func TestGeneratorTestFindsRepeatedCodes(t *testing.T) {
	t.Parallel()
	if repeated(drawAtOnce(t, keysource.Random{Length: func() int { return codespace.MinLength }})) == 0 {
		t.Error("32 takers of random codes of 3 characters found no code twice")
	}
}
