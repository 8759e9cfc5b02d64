package report

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// format is a size in which charts are drawn, in points that a page shows as pixels. A
// chart is not scaled down for a phone, where its letters would be too small: it is drawn
// once more.
type format struct {
	width, height, letters vg.Length
	across, upward         int  // how many values stand at an axis, roughly
	margin                 bool // there is room for the names of levels beside the data
}

func wide() format {
	return format{width: 640, height: 300, letters: 12, across: 8, upward: 6, margin: true}
}

func narrow() format {
	return format{width: 340, height: 260, letters: 11, across: 5, upward: 5}
}

// drawing is a chart that is being drawn.
type drawing struct {
	*plot.Plot
	chart  *Chart
	format format
}

// svg draws a chart that is tidy as an svg element without a size of its own.
func (c *Chart) svg(f format) (string, error) {
	d := &drawing{plot.New(), c, f}
	d.BackgroundColor = nil
	across := span(c.X, c.across())
	if c.rows() {
		across = withZero(c.X, across)
	}
	d.dress(&d.X, c.X, across, f.across)
	d.dress(&d.Y, c.Y, withZero(c.Y, span(c.Y, c.upward())), f.upward)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = inkGrid, inkGrid
	grid.Vertical.Width, grid.Horizontal.Width = 1, 1
	d.Add(grid)
	if err := d.addSeries(); err != nil {
		return "", fmt.Errorf("chart %q: %w", c.Title, err)
	}

	// How much room the names of the marks need is known when the width of the data is.
	left, right := vg.Length(gap), d.margin()
	data := d.DataCanvas(draw.Crop(draw.New(vgsvg.New(f.width, f.height)), left, -right, 0, 0))
	tags := d.tags(data)
	band := d.rowHeight() * vg.Length(rows(tags))
	canvas := vgsvg.New(f.width, f.height+band)
	area := draw.Crop(draw.New(canvas), left, -right, 0, -band)
	d.Draw(area)
	d.drawLevels(d.DataCanvas(area))
	d.drawTags(d.DataCanvas(area), tags)
	return element(canvas)
}

// element is the svg element of a canvas, in the colours of the page.
func element(canvas *vgsvg.Canvas) (string, error) {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	_, content, _ := strings.Cut(b.String(), "<svg")
	_, content, ok := strings.Cut(content, ">") // what follows its start tag
	if !ok {
		return "", errors.New("the drawing has no svg element")
	}
	width, height := canvas.Size()
	head := fmt.Sprintf(`<svg viewBox="0 0 %g %g" aria-hidden="true">`, width.Points(), height.Points())
	return head + repaint(content), nil
}

// addSeries adds all lines, those that were predicted last: where both are the same, the
// broken line is seen on the full one.
func (d *drawing) addSeries() error {
	for _, predicted := range []bool{false, true} {
		for i, s := range d.chart.Series {
			xy := d.chart.visible(s)
			if s.Predicted != predicted || len(xy) == 0 {
				continue
			}
			if err := d.addOne(s, d.thin(s, xy), inkOf(i)); err != nil {
				return fmt.Errorf("series %q: %w", s.Name, err)
			}
		}
	}
	return nil
}

func (d *drawing) addOne(s Series, xy plotter.XYs, colour ink) error {
	if s.Points || len(xy) == 1 { // a line from a point to itself would not be seen
		points, err := plotter.NewScatter(xy)
		if err != nil {
			return err
		}
		points.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: 3, Shape: draw.CircleGlyph{}}
		if s.Predicted {
			points.Shape = draw.RingGlyph{}
		}
		d.Add(points)
		return nil
	}
	line, err := plotter.NewLine(xy)
	if err != nil {
		return err
	}
	line.LineStyle = draw.LineStyle{Color: colour, Width: 2}
	if s.Predicted {
		line.Dashes = []vg.Length{6, 4}
	}
	if s.Steps {
		line.StepStyle = plotter.PostStep
	}
	d.Add(line)
	return nil
}

// visible are the points of a series that its axes can show.
func (c *Chart) visible(s Series) plotter.XYs {
	var xy plotter.XYs
	for _, p := range s.XY {
		if c.X.shows(p[0]) && c.Y.shows(p[1]) {
			xy = append(xy, plotter.XY{X: p[0], Y: p[1]})
		}
	}
	return xy
}

// thin leaves of the points that lie on the same half point of the width the first, the
// lowest, the highest and the last: the line looks the same, and a long run does not make
// a large page.
func (d *drawing) thin(s Series, xy plotter.XYs) plotter.XYs {
	if s.Points {
		return xy
	}
	column := func(p plotter.XY) int { return int(2 * d.format.width.Points() * d.X.Norm(p.X)) }
	var kept plotter.XYs
	for len(xy) > 0 {
		n := 1
		for n < len(xy) && column(xy[n]) == column(xy[0]) {
			n++
		}
		kept = append(kept, extremes(xy[:n])...)
		xy = xy[n:]
	}
	return kept
}

// extremes are the first, the lowest, the highest and the last point, in their order.
func extremes(xy plotter.XYs) plotter.XYs {
	low, high := 0, 0
	for i, p := range xy {
		if p.Y < xy[low].Y {
			low = i
		}
		if p.Y > xy[high].Y {
			high = i
		}
	}
	picked := []int{0, low, high, len(xy) - 1}
	slices.Sort(picked)
	var kept plotter.XYs
	for _, i := range slices.Compact(picked) {
		kept = append(kept, xy[i])
	}
	return kept
}

// letters is the font of everything in a chart. Its metrics are those of Arial and
// Helvetica too, which the style sheet takes where it is missing.
func letters(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}
