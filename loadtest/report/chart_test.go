package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// picture is the content of an svg element.
type picture struct {
	svg   string
	texts []string
	paths []string // the style of each path
}

func drawn(t *testing.T, c Chart) picture {
	t.Helper()
	svg, err := c.draw()
	if err != nil {
		t.Fatal(err)
	}
	p := picture{svg: string(svg)}
	for d := xml.NewDecoder(strings.NewReader(p.svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		e, ok := token.(xml.StartElement)
		switch {
		case ok && e.Name.Local == "text":
			var text string
			if err := d.DecodeElement(&text, &e); err != nil {
				t.Fatal(err)
			}
			p.texts = append(p.texts, text)
		case ok && e.Name.Local == "path":
			for _, a := range e.Attr {
				if a.Name.Local == "style" {
					p.paths = append(p.paths, a.Value)
				}
			}
		}
	}
}

// lines returns the styles of the paths that have the colour.
func (p picture) lines(colour string) []string {
	return keep(p.paths, func(style string) bool { return strings.Contains(style, "var("+colour+")") })
}

func (p picture) says(t *testing.T, texts ...string) {
	t.Helper()
	all := "|" + strings.Join(p.texts, "|") + "|"
	for _, want := range texts {
		if !strings.Contains(all, "|"+want+"|") {
			t.Errorf("the chart does not contain %q among its texts %q", want, p.texts)
		}
	}
}

func TestChartShowsAxesSeriesMarksAndLevels(t *testing.T) {
	t.Parallel()
	c := Chart{
		X: Axis{Label: "Time", Unit: "s"}, Y: Axis{Label: "Pool", Unit: "keys"},
		Series: []Series{
			{Name: "predicted", Predicted: true, XY: [][2]float64{{0, 2e6}, {60, 0}}},
			{Name: "observed", XY: [][2]float64{{0, 2e6}, {60, 1e4}}},
			{Name: "samples", Points: true, XY: [][2]float64{{0, 1e6}, {30, 1e6}, {60, 1e6}}},
		},
		Marks:  []Mark{{30, "worker stopped"}},
		Levels: []Mark{{4e5, `20 % <b> & "restart"`}},
	}
	p := drawn(t, c)
	p.says(t, "Time (s)", "Pool (keys)", "2M", "30", "0", "1", `20 % <b> & "restart"`)
	if l := p.lines("--series-0"); len(l) != 1 || !strings.Contains(l[0], "stroke-dasharray") {
		t.Errorf("the prediction is not a dashed line: %q", l)
	}
	if l := p.lines("--series-1"); len(l) != 1 || strings.Contains(l[0], "stroke-dasharray") {
		t.Errorf("the observation is not a full line: %q", l)
	}
	if l := p.lines("--series-2"); len(l) != 3 {
		t.Errorf("the chart has %d points, want 3", len(l))
	}
	if l := p.lines("--mark"); len(l) != 2 {
		t.Errorf("the chart has %d lines for its mark and its level, want 2", len(l))
	}
}

func TestChartUsesColoursOfStyleSheet(t *testing.T) {
	t.Parallel()
	css, err := page.ReadFile("page/page.css")
	if err != nil {
		t.Fatal(err)
	}
	var c Chart
	for range hues + 1 {
		c.Series = append(c.Series, Series{XY: [][2]float64{{0, 1}, {1, 2}}})
	}
	c.Marks, c.Levels = []Mark{{0.5, "half"}}, []Mark{{1.5, "level"}}
	svg := drawn(t, c).svg
	if colour := regexp.MustCompile(`#[0-9A-Fa-f]{3,}`).FindString(svg); colour != "" {
		t.Errorf("the chart has a colour that the style sheet does not set: %s", colour)
	}
	for i := range inks {
		if !strings.Contains(svg, "var("+i.variable()+")") {
			t.Errorf("the chart does not use the colour %s", i.variable())
		}
		if !strings.Contains(string(css), i.variable()+":") {
			t.Errorf("the style sheet does not define the colour %s", i.variable())
		}
	}
}

func TestAxesShowRangeAndLabels(t *testing.T) {
	t.Parallel()
	line := func(xy ...[2]float64) []Series { return []Series{{XY: xy}} }
	for name, tt := range map[string]struct {
		chart Chart
		says  []string
		lines int
	}{
		"axis starts at zero":                 {Chart{Series: line([2]float64{0, 990}, [2]float64{1, 1000})}, []string{"0", "1,000"}, 1},
		"thousands":                           {Chart{Series: line([2]float64{0, 0}, [2]float64{1, 50000})}, []string{"0", "25k", "50k"}, 1},
		"small values":                        {Chart{Series: line([2]float64{0, 0}, [2]float64{1, 0.003})}, []string{"0.001", "0.003"}, 1},
		"values below zero":                   {Chart{Series: line([2]float64{-3, -30}, [2]float64{3, 30})}, []string{"-30", "-3", "30"}, 1},
		"logarithmic axis":                    {Chart{Y: Axis{Log: true}, Series: line([2]float64{0, 0.02}, [2]float64{1, 3e6})}, []string{"0.1", "1", "1,000", "100k", "1M"}, 1},
		"logarithmic axis with a small range": {Chart{Y: Axis{Log: true}, Series: line([2]float64{0, 3}, [2]float64{1, 40})}, []string{"5", "10", "20", "50"}, 1},
		"logarithmic axis omits 0":            {Chart{X: Axis{Log: true}, Y: Axis{Log: true}, Series: line([2]float64{0, 3}, [2]float64{1, 4}, [2]float64{2, -1}, [2]float64{3, 50}), Marks: []Mark{{0, "out"}}}, []string{"10", "50"}, 1},
		"logarithmic axis with one value":     {Chart{X: Axis{Log: true}, Y: Axis{Log: true}, Series: line([2]float64{5, 5})}, []string{"5"}, 1},
		"one point":                           {Chart{Series: line([2]float64{5, 5})}, []string{"5"}, 1},
		"a series without points":             {Chart{Series: line()}, nil, 0},
		"no series":                           {Chart{Y: Axis{Log: true}}, nil, 0},
		"no figure":                           {Chart{Series: line([2]float64{math.NaN(), 1}, [2]float64{math.Inf(1), 1})}, nil, 0},
		"all values are equal":                {Chart{Series: line([2]float64{0, 0}, [2]float64{9, 0})}, []string{"0", "1"}, 1},
	} {
		p := drawn(t, tt.chart)
		t.Logf("%s: %q", name, p.texts)
		p.says(t, tt.says...)
		if l := p.lines("--series-0"); len(l) != tt.lines {
			t.Errorf("%s: the chart has %d lines, want %d", name, len(l), tt.lines)
		}
	}
}

func TestNumberLabelsOfChartMarksDoNotOverlap(t *testing.T) {
	t.Parallel()
	p := plot.New()
	c := Chart{Marks: []Mark{{At: 0}, {At: 50}, {At: 51}, {At: 51}, {At: 52}, {At: 99}, {At: 100}}}
	c.X.dress(&p.X, c.Marks, false)
	c.Y.dress(&p.Y, nil, true)
	var boxes []vg.Rectangle
	for _, m := range c.marks(p) {
		l, ok := m.(*plotter.Labels)
		if !ok {
			continue
		}
		g := l.GlyphBoxes(p)[0]
		box := g.Add(vg.Point{X: vg.Length(g.X) * 0.85 * chartWidth})
		for i, o := range boxes {
			if box.Min.X < o.Max.X && o.Min.X < box.Max.X && box.Min.Y < o.Max.Y && o.Min.Y < box.Max.Y {
				t.Errorf("the number %s overlaps the number %d", l.Labels, i+1)
			}
		}
		boxes = append(boxes, box)
	}
	if len(boxes) != len(c.Marks) {
		t.Errorf("the chart has %d numbers for %d marks", len(boxes), len(c.Marks))
	}
}
