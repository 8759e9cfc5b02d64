package report

import (
	"math"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
)

// shows reports whether the axis has a place for v.
func (a Axis) shows(v float64) bool { return finite(v) && (!a.Log || v > 0) }

func (a Axis) title() string {
	if a.Unit == "" || a.Unit == a.Label {
		return a.Label
	}
	return a.Label + " (" + a.Unit + ")"
}

// span is the least and the greatest of the values that the axis shows. They are never equal.
func (a Axis) span(values []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if a.shows(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	switch {
	case low > high: // nothing to show
		return 1, 10
	case low < high:
		return low, high
	case a.Log:
		return low / 2, high * 2
	case low == 0:
		return 0, 1
	}
	return low - 1, high + 1
}

// fromZero widens a span: a linear axis starts at zero, because a cut axis exaggerates, and
// leaves room at its upper end.
func (a Axis) fromZero(low, high float64) (float64, float64) {
	switch {
	case len(a.Names) > 0:
		return low - 0.3, high + 0.3
	case a.Log:
		return low / 1.3, high * 1.3
	}
	low, high = min(low, 0), max(high, 0)
	return low, high + 0.06*(high-low)
}

// dress sets the range, the ticks and the looks of an axis of a plot.
func (f format) dress(axis *plot.Axis, a Axis, low, high float64, wanted int) {
	axis.Min, axis.Max = low, high
	if a.Log {
		axis.Scale = plot.LogScale{}
	}
	axis.Tick.Marker = plot.ConstantTicks(a.ticks(low, high, wanted))
	axis.Label.Text = a.title()
	axis.Label.TextStyle.Font, axis.Tick.Label.Font = f.font(), f.font()
	axis.Label.TextStyle.Color, axis.Tick.Label.Color = inkText, inkText
	axis.Color, axis.Tick.Color = inkAxis, inkAxis
	axis.Label.Padding, axis.Padding = 5, 0
	axis.Width, axis.Tick.Width, axis.Tick.Length = 1, 1, 4
}

func (a Axis) ticks(low, high float64, wanted int) []plot.Tick {
	switch {
	case len(a.Names) > 0:
		var named []plot.Tick
		for _, m := range a.Names {
			named = append(named, plot.Tick{Value: m.At, Label: m.Name})
		}
		return named
	case a.Log:
		return decades(low, high)
	}
	return steps(low, high, wanted)
}

// steps are round values, about as many as wanted: multiples of 1, 2 or 5 times a power of ten.
// The ticks of package plot are three at most.
func steps(low, high float64, wanted int) []plot.Tick {
	rough := (high - low) / float64(wanted)
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{2, 2.5, 2} {
		if step < rough {
			step *= factor
		}
	}
	var all []plot.Tick
	for n := math.Ceil(low / step); n*step <= high; n++ {
		v := rounded(n*step, 6)
		all = append(all, plot.Tick{Value: v, Label: short(v, max(-low, high))})
	}
	return all
}

// decades are the powers of ten; on a short axis 2 and 5 times them have labels too.
func decades(low, high float64) []plot.Tick {
	var all []plot.Tick
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for digit := 1.0; digit < 10; digit++ {
			t := plot.Tick{Value: rounded(digit*math.Pow(10, power), 6)}
			if digit == 1 || high/low < 500 && (digit == 2 || digit == 5) {
				t.Label = short(t.Value, t.Value)
			}
			if t.Value >= low && t.Value <= high {
				all = append(all, t)
			}
		}
	}
	return all
}

// short writes a value on an axis that goes up to largest: 0.5M, 20k, 1,500.
func short(v, largest float64) string {
	scale, suffix := 1.0, ""
	switch {
	case v == 0:
	case largest >= 1e6:
		scale, suffix = 1e6, "M"
	case largest >= 1e4:
		scale, suffix = 1e3, "k"
	}
	return humanize.Commaf(rounded(v/scale, 6)) + suffix
}
