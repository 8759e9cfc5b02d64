package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// ink is a colour that is named by its role. The inks 0 to hues-1 are for series. The plotting library draws
// each ink in a placeholder colour. The method draw then replaces the placeholders with variables of the
// page's style sheet, which defines the colours of the light and the dark scheme.
type ink byte

const (
	hues        = 6
	inkText ink = hues + iota - 1
	inkAxis
	inkGrid
	inkMark
	inks
)

// RGBA implements color.Color.
func (i ink) RGBA() (r, g, b, a uint32) { return color.RGBA{0xFF, 0, byte(i), 0xFF}.RGBA() }

func (i ink) variable() string {
	if i < hues {
		return fmt.Sprintf("--series-%d", i)
	}
	return [...]string{"--text", "--axis", "--grid", "--mark"}[i-hues]
}

// The size of a chart in points. The page scales a chart by a factor from 0.8, on a phone, to 1.6.
const (
	chartWidth, chartHeight vg.Length = 380, 250
	letters                 vg.Length = 12 // font size
	gap                     vg.Length = 4  // distance between a line and its name
)

// draw returns an svg element that fills the available width. The legend of the page identifies series by
// colour and marks by number.
func (c Chart) draw() (template.HTML, error) {
	p := plot.New()
	p.BackgroundColor = nil
	grid := plotter.NewGrid()
	grid.Vertical = draw.LineStyle{Color: inkGrid, Width: 1}
	grid.Horizontal = grid.Vertical
	p.Add(grid)
	// Predictions are drawn last, because their lines are dashed. A solid line that is drawn after a dashed line hides
	// the dashed line.
	for _, predicted := range []bool{false, true} {
		for i, s := range c.Series {
			if s.Predicted == predicted {
				p.Add(c.series(s, ink(i%hues))...)
			}
		}
	}
	// An axis without zero exaggerates differences. Therefore a linear Y axis includes zero.
	c.X.dress(&p.X, c.Marks, false)
	c.Y.dress(&p.Y, c.Levels, true)
	p.Add(c.marks(p)...)
	canvas := vgsvg.New(chartWidth, chartHeight)
	// The margins leave room for the wider font of a browser that lacks the font of the chart.
	p.Draw(draw.Crop(draw.New(canvas), 2*gap, -5*gap, 0, -gap))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", fmt.Errorf("chart %q: %w", c.Title, err)
	}
	_, content, _ := strings.Cut(b.String(), "<svg")
	_, content, _ = strings.Cut(content, ">")
	for i := range inks {
		content = strings.ReplaceAll(content, fmt.Sprintf(":#FF00%02X", byte(i)), ":var("+i.variable()+")")
	}
	svg := fmt.Sprintf(`<svg viewBox="0 0 %g %g" aria-hidden="true">%s`, chartWidth, chartHeight, content)
	return template.HTML(svg), nil //nolint:gosec // the svg is drawn here, and vgsvg escapes names
}

// series draws one series. If the line has only one point, series draws a circle at this point.
func (c Chart) series(s Series, colour ink) []plot.Plotter {
	var xy plotter.XYs
	for _, p := range s.XY {
		if c.X.shows(p[0]) && c.Y.shows(p[1]) {
			xy = append(xy, plotter.XY{X: p[0], Y: p[1]})
		}
	}
	switch {
	case len(xy) == 0:
		return nil
	case s.Points || len(xy) == 1:
		glyph := draw.GlyphStyle{Color: colour, Radius: 3, Shape: draw.CircleGlyph{}}
		if s.Predicted {
			glyph.Shape = draw.RingGlyph{}
		}
		return []plot.Plotter{&plotter.Scatter{XYs: xy, GlyphStyle: glyph}}
	}
	line := &plotter.Line{XYs: xy, LineStyle: draw.LineStyle{Color: colour, Width: 2}}
	if s.Predicted {
		line.Dashes = []vg.Length{6, 4}
	}
	return []plot.Plotter{line}
}

// marks draws a dotted line for each level and each mark. The name of a level is to the right of the data, and the
// number of a mark is above the data.
func (c Chart) marks(p *plot.Plot) (all []plot.Plotter) {
	style := p.X.Tick.Label
	add := func(from, to plotter.XY, name string, offset vg.Point) {
		dotted := draw.LineStyle{Color: inkMark, Width: 1.25, Dashes: []vg.Length{1.5, 2.5}}
		all = append(all, &plotter.Line{XYs: plotter.XYs{from, to}, LineStyle: dotted}, &plotter.Labels{
			XYs: plotter.XYs{to}, Labels: []string{name}, TextStyle: []draw.TextStyle{style}, Offset: offset,
		})
	}
	style.XAlign, style.YAlign = draw.XLeft, draw.YCenter
	for _, m := range c.Levels {
		if c.Y.shows(m.At) {
			add(plotter.XY{X: p.X.Min, Y: m.At}, plotter.XY{X: p.X.Max, Y: m.At}, m.Name, vg.Point{X: gap})
		}
	}
	style.XAlign, style.YAlign = draw.XCenter, draw.YBottom
	var numbers []vg.Point // positions of the numbers so far; a number that would overlap another is drawn above it
	for i, m := range c.moments() {
		n := vg.Point{X: vg.Length(p.X.Norm(m.At)) * chartWidth, Y: gap}
		for _, o := range numbers {
			if n.X-o.X < 1.5*letters && o.X-n.X < 1.5*letters {
				n.Y = max(n.Y, o.Y+style.Height("0"))
			}
		}
		numbers = append(numbers, n)
		add(plotter.XY{X: m.At, Y: p.Y.Min}, plotter.XY{X: m.At, Y: p.Y.Max}, fmt.Sprint(i+1), vg.Point{Y: n.Y})
	}
	return all
}

// moments returns the visible marks in the order of their numbers.
func (c Chart) moments() []Mark {
	shown := keep(c.Marks, func(m Mark) bool { return c.X.shows(m.At) })
	slices.SortStableFunc(shown, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	return shown
}

// shows reports whether the axis can show v.
func (a Axis) shows(v float64) bool { return finite(v) && (!a.Log || v > 0) }

// dress sets the range, the ticks and the style of an axis. Before the call, the range covers only the series. dress
// extends the range so that it also covers the marks. If zero is true, the range of a linear axis also covers zero.
func (a Axis) dress(axis *plot.Axis, marks []Mark, zero bool) {
	for _, m := range marks {
		if a.shows(m.At) {
			axis.Min, axis.Max = min(axis.Min, m.At), max(axis.Max, m.At)
		}
	}
	if axis.Min > axis.Max { // there is no point or mark to show
		axis.Min, axis.Max = 1, 10
	}
	switch {
	case a.Log:
		axis.Scale = plot.LogScale{}
		axis.Min, axis.Max = axis.Min/1.3, axis.Max*1.3
	case zero:
		axis.Min, axis.Max = min(axis.Min, 0), max(axis.Max, 0)
		axis.Max += 0.06 * (axis.Max - axis.Min)
	}
	if axis.Min == axis.Max {
		axis.Max++
	}
	axis.Tick.Marker = a
	axis.Label.Text = a.Label
	if a.Unit != "" && a.Unit != a.Label {
		axis.Label.Text += " (" + a.Unit + ")"
	}
	face := font.Font{Typeface: "Liberation", Variant: "Sans", Size: letters}
	axis.Label.TextStyle.Font, axis.Tick.Label.Font = face, face
	axis.Label.TextStyle.Color, axis.Tick.Label.Color = inkText, inkText
	axis.Color, axis.Tick.Color = inkAxis, inkAxis
	axis.Label.Padding, axis.Padding = 5, 0
	axis.Width, axis.Tick.Width, axis.Tick.Length = 1, 1, 4
}

// Ticks implements plot.Ticker. It returns the ticks of package plot with short labels. A logarithmic axis whose
// ends differ by less than a factor of 500 also has labels at 2 and 5 times the powers of ten.
func (a Axis) Ticks(low, high float64) (all []plot.Tick) {
	all = plot.DefaultTicks{}.Ticks(low, high)
	if a.Log {
		all = plot.LogTicks{}.Ticks(low/10, high) // with low itself, the ticks would start above low
	}
	all = slices.DeleteFunc(all, func(t plot.Tick) bool { return t.Value < low || t.Value > high })
	for i, t := range all {
		digit := math.Round(t.Value / math.Pow(10, math.Floor(math.Log10(t.Value))))
		if !t.IsMinor() || a.Log && high/low < 500 && (digit == 2 || digit == 5) {
			largest := max(-low, high)
			if a.Log {
				largest = t.Value
			}
			all[i].Label = short(t.Value, largest)
		}
	}
	return all
}

// short formats a value of an axis, such as 0.5M, 20k or 1,500. The parameter largest decides
// between M, k and no suffix.
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
