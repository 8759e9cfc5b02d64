package report

import (
	"math"
	"slices"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
)

// interval is a part of an axis.
type interval struct{ min, max float64 }

// shows says that a value has a place on the axis.
func (a Axis) shows(v float64) bool { return finite(v) && (!a.Log || v > 0) }

func (a Axis) title() string {
	if a.Unit == "" || a.Unit == a.Label {
		return a.Label
	}
	return a.Label + " (" + a.Unit + ")"
}

// rows says that the chart compares what stands at its upright axis, by points beside it.
func (c *Chart) rows() bool {
	line := func(s Series) bool { return !s.Points }
	return len(c.Y.Names) > 0 && !slices.ContainsFunc(c.Series, line)
}

// across are all the values of x.
func (c *Chart) across() []float64 { return c.values(0, c.Marks, c.X.Names) }

// upward are all the values of y.
func (c *Chart) upward() []float64 { return c.values(1, c.Levels, c.Y.Names) }

func (c *Chart) values(side int, named ...[]Mark) []float64 {
	var all []float64
	for _, s := range c.Series {
		for _, p := range s.XY {
			all = append(all, p[side])
		}
	}
	for _, marks := range named {
		for _, m := range marks {
			all = append(all, m.At)
		}
	}
	return all
}

// span is the interval that shows all values that can be shown; it is never empty.
func span(a Axis, values []float64) interval {
	s := interval{math.Inf(1), math.Inf(-1)}
	for _, v := range values {
		if a.shows(v) {
			s.min, s.max = min(s.min, v), max(s.max, v)
		}
	}
	switch {
	case s.min > s.max: // nothing to show
		return interval{1, 10}
	case s.min < s.max:
		return s
	case a.Log:
		return interval{s.min / 2, s.max * 2}
	case s.min == 0:
		return interval{0, 1}
	}
	return interval{s.min - 1, s.max + 1}
}

// withZero lets a linear axis begin at zero, since a cut one exaggerates, and leaves room
// at the ends.
func withZero(a Axis, s interval) interval {
	switch {
	case len(a.Names) > 0:
		return interval{s.min - 0.3, s.max + 0.3}
	case a.Log:
		return interval{s.min / 1.3, s.max * 1.3}
	}
	s = interval{min(s.min, 0), max(s.max, 0)}
	s.max += 0.06 * (s.max - s.min)
	return s
}

// dress gives an axis of a plot its range, its marks and its looks.
func (d *drawing) dress(axis *plot.Axis, a Axis, s interval, wanted int) {
	axis.Min, axis.Max = s.min, s.max
	if a.Log {
		axis.Scale = plot.LogScale{}
	}
	axis.Tick.Marker = plot.ConstantTicks(ticks(a, s, wanted))
	axis.Label.Text = a.title()
	axis.Label.TextStyle.Font = letters(d.format.letters)
	axis.Tick.Label.Font = letters(d.format.letters)
	axis.Label.TextStyle.Color, axis.Tick.Label.Color = inkText, inkText
	axis.Label.Padding = 5
	axis.Color, axis.Tick.Color = inkAxis, inkAxis
	axis.Width, axis.Tick.Width, axis.Tick.Length = 1, 1, 4
	axis.Padding = 0
}

// ticks are the values that stand at an axis, as many as are wanted if it is linear.
func ticks(a Axis, s interval, wanted int) []plot.Tick {
	if len(a.Names) > 0 {
		var named []plot.Tick
		for _, m := range a.Names {
			named = append(named, plot.Tick{Value: m.At, Label: m.Name})
		}
		return named
	}
	if a.Log {
		return decades(s)
	}
	return steps(s, wanted)
}

// steps are about as many round values in an interval as are wanted.
func steps(s interval, wanted int) []plot.Tick {
	rough := (s.max - s.min) / float64(wanted)
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{2, 2.5, 2} { // to 2, 5 and 10
		if step < rough {
			step *= factor
		}
	}
	largest := max(-s.min, s.max)
	var all []plot.Tick
	for n := math.Ceil(s.min / step); n*step <= s.max; n++ {
		v := rounded(n*step, 6)
		all = append(all, plot.Tick{Value: v, Label: short(v, largest)})
	}
	return all
}

// decades are the powers of ten in an interval; in a short one their doubles and fives
// stand there too.
func decades(s interval) []plot.Tick {
	few := s.max/s.min < 500
	var all []plot.Tick
	for power := math.Floor(math.Log10(s.min)); power <= math.Log10(s.max); power++ {
		for step := 1.0; step < 10; step++ {
			v := rounded(step*math.Pow(10, power), 6)
			t := plot.Tick{Value: v}
			if step == 1 || few && (step == 2 || step == 5) {
				t.Label = short(v, v)
			}
			if v >= s.min && v <= s.max {
				all = append(all, t)
			}
		}
	}
	return all
}

// short shows a value on an axis whose largest value is given: 0.5M, 20k, 1,500.
func short(v, largest float64) string {
	scale, suffix := 1.0, ""
	switch {
	case largest >= 1e6:
		scale, suffix = 1e6, "M"
	case largest >= 1e4:
		scale, suffix = 1e3, "k"
	}
	if v == 0 {
		return "0"
	}
	return humanize.Commaf(rounded(v/scale, 6)) + suffix
}
