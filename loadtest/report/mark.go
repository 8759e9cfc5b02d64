package report

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// gap is the room around a name, in points.
const gap = 4

// names writes the names of marks and levels.
type names struct {
	text.Style
	row vg.Length // its height
}

// size is the width of a name with room for the wider font of a browser that lacks the font of
// the chart.
func (n names) size(name string) vg.Length { return 1.2 * n.Width(name) }

// annotate draws p with the marks and the levels of the chart. The names of the marks stand in
// rows above the data; the canvas is as high as they need.
func (c *Chart) annotate(p *plot.Plot, f format) *vgsvg.Canvas {
	n := names{Style: p.X.Label.TextStyle}
	n.XAlign, n.YAlign = text.XLeft, text.YBottom
	n.row = n.Height("X") + gap
	levels := latest(c.Levels, c.Y.shows)
	margin := vg.Length(0)
	for i := range levels {
		levels[i].Name = n.fit(levels[i].Name, f.width/3)
		margin = max(margin, n.size(levels[i].Name)+2*gap)
	}
	if !f.margin || len(levels) == 0 {
		margin = 3 * gap // the last number of the axis
	}
	// The width of the data decides how many rows the marks need.
	data := p.DataCanvas(draw.Crop(draw.New(vgsvg.New(f.width, f.height)), 2*gap, -margin, 0, 0))
	tags, rows := n.place(latest(c.Marks, c.X.shows), f.width, func(x float64) vg.Length { return data.X(p.X.Norm(x)) })
	band := n.row * vg.Length(rows)
	canvas := vgsvg.New(f.width, f.height+band)
	area := draw.Crop(draw.New(canvas), 2*gap, -margin, 0, -band)
	p.Draw(area)
	data = p.DataCanvas(area)
	n.drawLevels(data, levels, f.margin, p.Y.Norm)
	n.drawTags(data, tags)
	return canvas
}

// latest are the marks that an axis shows, from its end to its start.
func latest(marks []Mark, shows func(float64) bool) []Mark {
	marks = keep(marks, func(m Mark) bool { return shows(m.At) })
	slices.SortStableFunc(marks, func(a, b Mark) int { return cmp.Compare(b.At, a.At) })
	return marks
}

// tag is a mark with the place of its line and of its name.
type tag struct {
	name          string
	at, from, end vg.Length
	row           int // from the bottom
}

// place gives each mark a row in which its name overlaps no other. Marks come from right to left,
// so that the line of each passes below the names of those before it.
func (n names) place(marks []Mark, width vg.Length, x func(float64) vg.Length) (tags []tag, rows int) {
	for _, m := range marks {
		t := tag{name: n.fit(m.Name, width-2*gap), at: x(m.At)}
		size := n.size(t.name)
		if t.from = t.at + gap; t.from+size > width {
			t.from = max(gap, t.at-gap-size)
		}
		t.end = t.from + size
		for _, o := range tags {
			if min(t.at, t.from)-gap < max(o.at, o.end) && min(o.at, o.from)-gap < max(t.at, t.end) {
				t.row = max(t.row, o.row+1)
			}
		}
		tags, rows = append(tags, t), max(rows, t.row+1)
	}
	return tags, rows
}

// dotted is the line of marks and levels, which no series has.
func dotted() draw.LineStyle {
	return draw.LineStyle{Color: inkMark, Width: 1.25, Dashes: []vg.Length{1.5, 2.5}}
}

// drawTags draws all lines before the names, so that no line crosses a name.
func (n names) drawTags(data draw.Canvas, tags []tag) {
	bottom := func(t tag) vg.Length { return data.Max.Y + n.row*vg.Length(t.row) }
	for _, t := range tags {
		data.StrokeLine2(dotted(), t.at, data.Min.Y, t.at, bottom(t)+n.row-gap/2)
	}
	for _, t := range tags {
		n.write(data, t.name, vg.Point{X: t.from, Y: bottom(t) + gap/2})
	}
}

// drawLevels draws each level with its name at the right end: beside the data, or on it. Of two that
// are close, the name of the lower moves down.
func (n names) drawLevels(data draw.Canvas, levels []Mark, beside bool, norm func(float64) float64) {
	limit := data.Max.Y + n.row
	for _, l := range levels {
		y := data.Y(norm(l.At))
		data.StrokeLine2(dotted(), data.Min.X, y, data.Max.X, y)
		at := vg.Point{X: data.Max.X - gap - n.size(l.Name), Y: y + gap/2}
		if beside {
			at = vg.Point{X: data.Max.X + gap, Y: y - n.Height(l.Name)/2}
		}
		at.Y = min(at.Y, limit)
		n.write(data, l.Name, at)
		limit = at.Y - n.row
	}
}

// write puts a name on ground of its own; at is its lower left corner.
func (n names) write(c draw.Canvas, name string, at vg.Point) {
	box := n.Rectangle(name).Add(at)
	box.Min.X -= gap / 2
	box.Max.X += gap / 2
	c.SetColor(inkGround)
	c.Fill(box.Path())
	c.FillText(n.Style, at, name)
}

// fit cuts a name that is wider than width.
func (n names) fit(name string, width vg.Length) string {
	if n.size(name) <= width {
		return name
	}
	letters := []rune(name)
	for len(letters) > 0 && n.size(string(letters)+"…") > width {
		letters = letters[:len(letters)-1]
	}
	return string(letters) + "…"
}
