package keysource_test

import (
	"testing"

	"keypool/kgs/codespace"
	"keypool/kgs/keysource"
)

// If all codes of one length are in use, a creation must find a longer code.
func TestRandomCodesAreLongerAfterManyAttempts(t *testing.T) {
	t.Parallel()
	source := keysource.Random{Length: func() int { return 4 }}
	afterHash := keysource.Random{Length: source.Length, First: keysource.HashAttempts}
	for attempt, want := range map[int]int{0: 4, 199: 4, 200: 5, 399: 5, 400: 6, 9999: codespace.MaxLength} {
		key, err := source.Next(t.Context(), "", attempt)
		if err != nil || len(key.Code) != want {
			t.Errorf("attempt %d gives %q, %v; want %d characters", attempt, key.Code, err, want)
		}
		key, err = afterHash.Next(t.Context(), "", keysource.HashAttempts+attempt)
		if err != nil || len(key.Code) != want {
			t.Errorf("attempt %d after the attempts of Hash gives %q, %v; want %d characters", attempt, key.Code, err, want)
		}
	}
}
