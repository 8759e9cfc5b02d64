package report

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ink is a colour by its role. The style sheet of the page decides what it looks like, in light and in
// dark: charts are drawn in place-holder colours, which repaint replaces by variables.
type ink uint8

const (
	inkText ink = iota
	inkAxis
	inkGrid
	inkGround // behind names that lie on lines
	inkMark
	inkSeries // the first of hues
	hues      = 6
)

// RGBA makes ink a color.Color.
func (i ink) RGBA() (r, g, b, a uint32) { return color.RGBA{0xFF, 0, byte(i) * 0x11, 0xFF}.RGBA() }

func (i ink) variable() string {
	if i >= inkSeries {
		return fmt.Sprintf("--series-%d", i-inkSeries)
	}
	return [...]string{"--text", "--axis", "--grid", "--ground", "--mark"}[i]
}

func repaint(svg string) string {
	var pairs []string
	for i := range inkSeries + hues {
		pairs = append(pairs, fmt.Sprintf(":#FF00%02X", byte(i)*0x11), ":var("+i.variable()+")")
	}
	return strings.NewReplacer(pairs...).Replace(svg)
}

// format is a size to draw charts in, in points, which the page shows as pixels. A chart scaled down
// to a phone would have illegible text, so each chart is drawn in both formats.
type format struct {
	width, height, text vg.Length
	across, upward      int  // ticks of a linear axis, about
	margin              bool // there is room for the names of levels beside the data
}

func wide() format   { return format{560, 280, 12, 7, 5, true} }
func narrow() format { return format{340, 260, 11, 5, 5, false} }

// font has the metrics of Arial and Helvetica, which browsers use where it is missing.
func (f format) font() font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: f.text}
}

// svg draws a tidy chart as an svg element that fills the width that it is given.
func (c *Chart) svg(f format) (string, error) {
	p := plot.New()
	p.BackgroundColor = nil
	low, high := c.X.span(c.values(0, c.Marks, c.X.Names))
	if c.compares() {
		low, high = c.X.fromZero(low, high)
	}
	f.dress(&p.X, c.X, low, high, f.across)
	low, high = c.Y.fromZero(c.Y.span(c.values(1, c.Levels, c.Y.Names)))
	f.dress(&p.Y, c.Y, low, high, f.upward)
	grid := plotter.NewGrid()
	grid.Vertical = draw.LineStyle{Color: inkGrid, Width: 1}
	grid.Horizontal = grid.Vertical
	p.Add(grid)
	// Predictions come last: a broken line is visible on a full one, not below it.
	for _, predicted := range []bool{false, true} {
		for i, s := range c.Series {
			if s.Predicted == predicted {
				p.Add(c.plotters(s, inkSeries+ink(i%hues), p.X.Norm, f)...)
			}
		}
	}
	canvas := c.annotate(p, f)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", fmt.Errorf("chart %q: %w", c.Title, err)
	}
	_, content, _ := strings.Cut(b.String(), "<svg")
	_, content, ok := strings.Cut(content, ">")
	if !ok {
		return "", errors.New("the drawing has no svg element")
	}
	width, height := canvas.Size()
	return fmt.Sprintf(`<svg viewBox="0 0 %g %g" aria-hidden="true">`, width.Points(), height.Points()) + repaint(content), nil
}

// compares reports whether the chart compares the named values of Y by points beside them.
func (c *Chart) compares() bool {
	return len(c.Y.Names) > 0 && !slices.ContainsFunc(c.Series, func(s Series) bool { return !s.Points })
}

// values are all values on one side: 0 for X, 1 for Y.
func (c *Chart) values(side int, named ...[]Mark) (all []float64) {
	for _, s := range c.Series {
		for _, p := range s.XY {
			all = append(all, p[side])
		}
	}
	for _, m := range slices.Concat(named...) {
		all = append(all, m.At)
	}
	return all
}

// plotters draw one series. A line of one point is drawn as a point.
func (c *Chart) plotters(s Series, colour ink, norm func(float64) float64, f format) []plot.Plotter {
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
	column := func(x float64) int { return int(2 * f.width.Points() * norm(x)) }
	line := &plotter.Line{XYs: thin(xy, column), LineStyle: draw.LineStyle{Color: colour, Width: 2}}
	if s.Predicted {
		line.Dashes = []vg.Length{6, 4}
	}
	if s.Steps {
		line.StepStyle = plotter.PostStep
	}
	return []plot.Plotter{line}
}

// thin keeps the first, the lowest, the highest and the last of the points in each column of half a
// pixel. The line looks the same, and a long run does not make a large page.
func thin(xy plotter.XYs, column func(float64) int) plotter.XYs {
	var kept plotter.XYs
	for len(xy) > 0 {
		n, low, high := 1, 0, 0
		for ; n < len(xy) && column(xy[n].X) == column(xy[0].X); n++ {
			if xy[n].Y < xy[low].Y {
				low = n
			}
			if xy[n].Y > xy[high].Y {
				high = n
			}
		}
		picked := []int{0, low, high, n - 1}
		slices.Sort(picked)
		for _, i := range slices.Compact(picked) {
			kept = append(kept, xy[i])
		}
		xy = xy[n:]
	}
	return kept
}
