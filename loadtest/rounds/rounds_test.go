package rounds

import (
	"context"
	"errors"
	"strings"
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

// Each round begins with another subject, those that follow one stay with it, and the
// figures are told apart all the same.
func TestAlternateRotates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		subjects string // those in capitals follow the one before
		want     string
	}{
		{"abc", "abc bca cab"},
		{"aBc", "aBc caB aBc"},
		{"aBcDeF", "aBcDeF cDeFaB eFaBcD"},
		{"abcdef", "abcdef cdefab efabcd"},
		{"a", "a a a"},
		{"", ""},
	}
	for _, tt := range tests {
		var got []string
		var subjects []Subject
		for i, name := range tt.subjects {
			subjects = append(subjects, Subject{Name: string(name), Follows: name < 'a', Measure: func(context.Context) (float64, error) {
				got = append(got, string(name))
				return float64(i), nil
			}})
		}
		figures, err := Alternate(t.Context(), 3, func(string) {}, subjects...)
		if order := strings.Join(got, ""); err != nil || order != strings.ReplaceAll(tt.want, " ", "") {
			t.Errorf("%q: %s, error %v; want %s", tt.subjects, order, err, tt.want)
		}
		for i, s := range figures {
			if lo, hi := s.Range(); len(s) != 3 || lo != float64(i) || hi != lo {
				t.Errorf("%q: the figures of %c are %v", tt.subjects, tt.subjects[i], s)
			}
		}
	}
}
