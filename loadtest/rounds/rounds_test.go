package rounds

import (
	"context"
	"errors"
	"testing"
)

// What fails is left out from then on; the others are measured to the end, and nobody is
// told of a yardstick.
func TestAlternateLeavesOutWhatFails(t *testing.T) {
	t.Parallel()
	right := Subject{Name: "right", Unit: PerSecond, Measure: func(context.Context) (float64, error) { return 1, nil }}
	broken := errors.New("broken")
	tests := []struct {
		name      string
		yardstick bool
		want      error
	}{{"a subject", false, broken}, {"a yardstick", true, nil}}
	for _, tt := range tests {
		calls := 0
		wrong := Subject{Name: "wrong", Unit: PerSecond, Yardstick: tt.yardstick, Measure: func(context.Context) (float64, error) {
			if calls++; calls == 2 {
				return 0, broken
			}
			return 1, nil
		}}
		figures, err := Alternate(t.Context(), 3, func(line string) { t.Log(line) }, wrong, right)
		if !errors.Is(err, tt.want) || calls != 2 || len(figures[0]) != 0 || len(figures[1]) != 3 {
			t.Errorf("%s: %v, %v after %d calls", tt.name, figures, err, calls)
		}
	}
}

// The end of the context is no failure of what is being measured, and no figure either.
func TestAlternateEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := Subject{Name: "ended", Unit: PerSecond, Yardstick: true, Measure: func(context.Context) (float64, error) {
		cancel()
		return 1, nil
	}}
	figures, err := Alternate(ctx, 1, func(string) {}, ended)
	if !errors.Is(err, context.Canceled) || len(figures) != 1 || figures[0] != nil {
		t.Errorf("%v, %v", figures, err)
	}
}
