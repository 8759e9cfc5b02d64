package measure

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// Alternate does not measure a subject again after its failure. It measures the other subjects
// in all rounds. The failure of an optional subject is not an error.
func TestAlternateLeavesOutFailedSubjects(t *testing.T) {
	t.Parallel()
	right := Subject{Name: "right", Unit: PerSecond, Measure: func(context.Context) (float64, error) { return 1, nil }}
	broken := errors.New("broken")
	tests := []struct {
		name     string
		optional bool
		want     error
	}{{"a subject", false, broken}, {"an optional subject", true, nil}}
	for _, tt := range tests {
		calls := 0
		wrong := Subject{Name: "wrong", Unit: PerSecond, Optional: tt.optional, Measure: func(context.Context) (float64, error) {
			if calls++; calls == 2 {
				return 0, broken
			}
			return 1, nil
		}}
		figures, err := Alternate(t.Context(), 3, func(line string) { t.Log(line) }, wrong, right)
		if !errors.Is(err, tt.want) || calls != 2 || len(figures[0]) != 0 || len(figures[1]) != 3 {
			t.Errorf("%s: Alternate returns %v and the error %v after %d calls of the failing subject", tt.name, figures, err, calls)
		}
	}
}

// The end of the context is neither a failure of a subject nor a figure.
func TestAlternateEndsWhenContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := Subject{Name: "ended", Unit: PerSecond, Optional: true, Measure: func(context.Context) (float64, error) {
		cancel()
		return 1, nil
	}}
	figures, err := Alternate(ctx, 1, func(string) {}, ended)
	if !errors.Is(err, context.Canceled) || len(figures) != 1 || figures[0] != nil {
		t.Errorf("Alternate returns %v and the error %v, want no figures and the end of the context", figures, err)
	}
}

// Successive rounds start at different subjects. A subject with Follows is always measured directly after its
// predecessor in the list. Alternate returns the figures in the order of the subjects, not in the order of the
// measurements.
func TestAlternateRotatesOrderOfSubjects(t *testing.T) {
	t.Parallel()
	tests := []struct {
		subjects string // a capital letter is a subject that follows the subject before it
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
			t.Errorf("%q: the subjects were measured in the order %s, and the error is %v; want the order %s", tt.subjects, order, err, tt.want)
		}
		for i, s := range figures {
			if len(s) != 3 || slices.Min(s) != float64(i) || slices.Max(s) != float64(i) {
				t.Errorf("%q: the figures of %c are %v", tt.subjects, tt.subjects[i], s)
			}
		}
	}
}

func TestSeriesComputesMedianAndSpread(t *testing.T) {
	t.Parallel()
	tests := []struct {
		s      Series
		median float64
	}{
		{nil, 0},
		{Series{3}, 3},
		{Series{9, 1, 5}, 5},
		{Series{4, 1, 2, 9}, 3},
	}
	for _, tt := range tests {
		if got := tt.s.Median(); got != tt.median {
			t.Errorf("the median of %v is %v, want %v", tt.s, got, tt.median)
		}
	}
	order := Series{9, 1, 5}
	order.Median()
	if order[0] != 9 {
		t.Error("Median sorted the series, so ratios would compare different rounds")
	}
	if got := (Series{2, 9}).Over(Series{1, 3, 5}).Spread(Times); got != "2.50 (2.00 to 3.00)" {
		t.Errorf("Spread returns %q", got)
	}
}

func TestQuantityIsFormattedWithUnit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		v    float64
		unit string
		want string
	}{
		{33_312, PerSecond, "33.3k/s"},
		{6_627_970, PerSecond, "6.63M/s"},
		{912.34, PerSecond, "912.3/s"},
		{0.3512, Times, "0.35"},
		{25.761, "MiB", "25.76 MiB"},
	}
	for _, tt := range tests {
		if got := Quantity(tt.v, tt.unit); got != tt.want {
			t.Errorf("%v %s: %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}
