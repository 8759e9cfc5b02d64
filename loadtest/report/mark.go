package report

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// gap is the room around a name, in points.
const gap = 4

// tag is a moment with its name, which stands above the data beside the moment's line.
type tag struct {
	name          string
	at, from, end vg.Length // of the line, of the name
	row           int       // from the bottom
}

// covers says that two tags would be drawn over each other in one row.
func (t tag) covers(o tag) bool {
	return min(t.at, t.from)-gap < max(o.at, o.end) && min(o.at, o.from)-gap < max(t.at, t.end)
}

// tags gives each mark a place for its name: to the right of its line while there is room,
// and in a row in which it covers no other one. From right to left, so that the line of a
// mark passes below the names of those before it.
func (d *drawing) tags(data draw.Canvas) []tag {
	marks := keep(d.chart.Marks, func(m Mark) bool { return d.chart.X.shows(m.At) })
	slices.SortFunc(marks, func(a, b Mark) int { return cmp.Compare(b.At, a.At) })
	style := d.style()
	var placed []tag
	for _, m := range marks {
		name := fit(style, m.Name, d.format.width-2*gap)
		t := tag{name: name, at: data.X(d.X.Norm(m.At))}
		t.from = t.at + gap
		width := style.Width(name)
		if t.from+width > d.format.width { // the right edge of the picture
			t.from = max(gap, t.at-gap-width)
		}
		t.end = t.from + width
		for _, other := range placed {
			if t.covers(other) {
				t.row = max(t.row, other.row+1)
			}
		}
		placed = append(placed, t)
	}
	return placed
}

// dotted is the line of a mark, which no series has.
func dotted() draw.LineStyle {
	return draw.LineStyle{Color: inkMark, Width: 1.25, Dashes: []vg.Length{1.5, 2.5}}
}

// rows is how many rows tags fill.
func rows(tags []tag) int {
	n := 0
	for _, t := range tags {
		n = max(n, t.row+1)
	}
	return n
}

// drawTags draws lines first, then names: a name that a line crosses can be read.
func (d *drawing) drawTags(data draw.Canvas, tags []tag) {
	for _, t := range tags {
		top := data.Max.Y + d.rowHeight()*(vg.Length(t.row)+1) - gap/2
		data.StrokeLine2(dotted(), t.at, data.Min.Y, t.at, top)
	}
	for _, t := range tags {
		d.write(data, t.name, vg.Point{X: t.from, Y: data.Max.Y + d.rowHeight()*vg.Length(t.row) + gap/2})
	}
}

// levels are the thresholds that can be shown, from the top.
func (d *drawing) levels() []Mark {
	levels := keep(d.chart.Levels, func(m Mark) bool { return d.chart.Y.shows(m.At) })
	slices.SortFunc(levels, func(a, b Mark) int { return cmp.Compare(b.At, a.At) })
	return levels
}

// margin is the room that the names of the levels need beside the data.
func (d *drawing) margin() vg.Length {
	var widest vg.Length
	for _, l := range d.levels() {
		widest = max(widest, d.style().Width(d.levelName(l))+2*gap)
	}
	if !d.format.margin {
		return 0
	}
	return widest
}

func (d *drawing) levelName(l Mark) string { return fit(d.style(), l.Name, d.format.width/3) }

// drawLevels draws the thresholds, each with its name at its right end: beside the data,
// or on them above the line. Where two are close, the lower name gives way.
func (d *drawing) drawLevels(data draw.Canvas) {
	style := d.style()
	above := data.Max.Y + 2*d.rowHeight()
	for _, l := range d.levels() {
		y := data.Y(d.Y.Norm(l.At))
		data.StrokeLine2(dotted(), data.Min.X, y, data.Max.X, y)
		name := d.levelName(l)
		at := vg.Point{X: data.Max.X - gap - style.Width(name), Y: y + gap/2}
		if d.format.margin {
			at = vg.Point{X: data.Max.X + gap, Y: y - style.Height(name)/2}
		}
		at.Y = min(at.Y, above-d.rowHeight())
		d.write(data, name, at)
		above = at.Y
	}
}

// write puts a name on ground of its own; at is its lower left corner.
func (d *drawing) write(c draw.Canvas, name string, at vg.Point) {
	style := d.style()
	box := style.Rectangle(name).Add(at)
	box.Min.X -= gap / 2
	box.Max.X += gap / 2
	c.SetColor(inkGround)
	c.Fill(box.Path())
	c.FillText(style, at, name)
}

// style is that of all names.
func (d *drawing) style() text.Style {
	style := d.X.Label.TextStyle
	style.XAlign, style.YAlign = text.XLeft, text.YBottom
	return style
}

func (d *drawing) rowHeight() vg.Length { return d.style().Height("X") + gap }

// fit cuts a name that is longer than a width.
func fit(style text.Style, name string, width vg.Length) string {
	if style.Width(name) <= width {
		return name
	}
	letters := []rune(name)
	for len(letters) > 0 && style.Width(string(letters)+"…") > width {
		letters = letters[:len(letters)-1]
	}
	return string(letters) + "…"
}
