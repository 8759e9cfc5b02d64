package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// picture is what an svg element holds.
type picture struct {
	svg   string
	texts []string
	paths []string // their styles
}

func drawIn(t *testing.T, c Chart, f format) picture {
	t.Helper()
	c = c.tidy()
	svg, err := c.svg(f)
	if err != nil {
		t.Fatal(err)
	}
	p := picture{svg: svg}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
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

// lines are the styles of what is drawn in a colour.
func (p picture) lines(colour string) []string {
	return keep(p.paths, func(style string) bool { return strings.Contains(style, "var("+colour+")") })
}

func (p picture) says(t *testing.T, texts ...string) {
	t.Helper()
	all := "|" + strings.Join(p.texts, "|") + "|"
	for _, want := range texts {
		if !strings.Contains(all, "|"+want+"|") {
			t.Errorf("no %q among %q", want, p.texts)
		}
	}
}

func TestChartShowsItsParts(t *testing.T) {
	t.Parallel()
	c := Chart{
		X: Axis{Label: "Time", Unit: "s"}, Y: Axis{Label: "Pool", Unit: "keys"},
		Series: []Series{
			{Name: "predicted", Predicted: true, XY: [][2]float64{{0, 2e6}, {60, 0}}},
			{Name: "observed", XY: [][2]float64{{0, 2e6}, {60, 1e4}}},
			{Name: "samples", Points: true, XY: [][2]float64{{0, 1e6}, {30, 1e6}, {60, 1e6}}},
		},
		Marks:  []Mark{{30, `worker <b> & "stopped"`}},
		Levels: []Mark{{4e5, "20 %"}},
	}
	for name, f := range map[string]format{"wide": wide(), "narrow": narrow()} {
		p := drawIn(t, c, f)
		p.says(t, "Time (s)", "Pool (keys)", "2M", "20", "0", `worker <b> & "stopped"`, "20 %")
		if l := p.lines("--series-0"); len(l) != 1 || !strings.Contains(l[0], "stroke-dasharray") {
			t.Errorf("%s: the prediction is not a broken line: %q", name, l)
		}
		if l := p.lines("--series-1"); len(l) != 1 || strings.Contains(l[0], "stroke-dasharray") {
			t.Errorf("%s: the observation is not a full line: %q", name, l)
		}
		if l := p.lines("--series-2"); len(l) != 3 {
			t.Errorf("%s: %d points of 3", name, len(l))
		}
		if l := p.lines("--mark"); len(l) != 2 {
			t.Errorf("%s: %d lines for a mark and a level", name, len(l))
		}
	}
}

// The style sheet sets every colour of a chart.
func TestChartColoursAreThoseOfThePage(t *testing.T) {
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
	svg := drawIn(t, c, wide()).svg
	if colour := regexp.MustCompile(`#[0-9A-Fa-f]{3,}`).FindString(svg); colour != "" {
		t.Errorf("a colour that the style sheet does not set: %s", colour)
	}
	for i := range inkSeries + hues {
		if !strings.Contains(svg, "var("+i.variable()+")") {
			t.Errorf("%s is not used", i.variable())
		}
		if !strings.Contains(string(css), i.variable()+":") {
			t.Errorf("%s is not in the style sheet", i.variable())
		}
	}
}

func TestChartAxes(t *testing.T) {
	t.Parallel()
	line := func(xy ...[2]float64) []Series { return []Series{{XY: xy}} }
	for name, tt := range map[string]struct {
		chart Chart
		says  []string
		lines int
	}{
		"names":           {Chart{Y: Axis{Names: []Mark{{0, "closed"}, {1, "half-open"}, {2, "open"}}}, Series: line([2]float64{0, 0}, [2]float64{9, 2})}, []string{"closed", "half-open", "open"}, 1},
		"from zero":       {Chart{Series: line([2]float64{0, 990}, [2]float64{1, 1000})}, []string{"0", "1,000"}, 1},
		"thousands":       {Chart{Series: line([2]float64{0, 0}, [2]float64{1, 50000})}, []string{"0", "20k", "40k"}, 1},
		"small":           {Chart{Series: line([2]float64{0, 0}, [2]float64{1, 0.003})}, []string{"0.001", "0.003"}, 1},
		"below zero":      {Chart{Series: line([2]float64{-3, -30}, [2]float64{3, 30})}, []string{"-20", "-2", "20"}, 1},
		"log":             {Chart{Y: Axis{Log: true}, Series: line([2]float64{0, 0.02}, [2]float64{1, 3e6})}, []string{"0.1", "1", "1,000", "100k", "1M"}, 1},
		"log, few":        {Chart{Y: Axis{Log: true}, Series: line([2]float64{0, 3}, [2]float64{1, 40})}, []string{"5", "10", "20", "50"}, 1},
		"log without 0":   {Chart{X: Axis{Log: true}, Y: Axis{Log: true}, Series: line([2]float64{0, 3}, [2]float64{1, 4}, [2]float64{2, -1}, [2]float64{3, 50}), Marks: []Mark{{0, "out"}}}, []string{"10", "50"}, 1},
		"log, one value":  {Chart{X: Axis{Log: true}, Y: Axis{Log: true}, Series: line([2]float64{5, 5})}, []string{"5"}, 1},
		"one point":       {Chart{Series: line([2]float64{5, 5})}, []string{"5"}, 1},
		"nothing":         {Chart{Series: line()}, nil, 0},
		"no series":       {Chart{Y: Axis{Log: true}}, nil, 0},
		"no figure":       {Chart{Series: line([2]float64{math.NaN(), 1}, [2]float64{math.Inf(1), 1})}, nil, 0},
		"always the same": {Chart{Series: line([2]float64{0, 0}, [2]float64{9, 0})}, []string{"0", "1"}, 1},
	} {
		for _, f := range []format{wide(), narrow()} {
			p := drawIn(t, tt.chart, f)
			t.Logf("%s: %q", name, p.texts)
			p.says(t, tt.says...)
			if l := p.lines("--series-0"); len(l) != tt.lines {
				t.Errorf("%s: %d lines, want %d", name, len(l), tt.lines)
			}
		}
	}
}

// An axis on which points are compared starts at zero.
func TestComparisonsStartAtZero(t *testing.T) {
	t.Parallel()
	c := Chart{Y: Axis{Names: []Mark{{0, "this"}, {1, "that"}}}, Series: []Series{{Points: true, XY: [][2]float64{{900, 0}, {1000, 1}}}}}
	texts := drawIn(t, c, wide()).texts
	for _, want := range []string{"0", "this", "that"} {
		if !slices.Contains(texts, want) {
			t.Errorf("no %q among %q", want, texts)
		}
	}
	c.Series[0].Points = false
	if texts := drawIn(t, c, wide()).texts; slices.Contains(texts, "0") {
		t.Errorf("a line starts at zero too: %q", texts)
	}
}

// A long series does not make a large page, and no peak is lost.
func TestChartIsThinned(t *testing.T) {
	t.Parallel()
	s := Series{Name: "pool"}
	for i := range 100_000 {
		s.XY = append(s.XY, [2]float64{float64(i), float64(i % 7)})
	}
	s.XY[54_321][1] = 1000
	c := Chart{Series: []Series{s}}
	if n := len(drawIn(t, c, wide()).svg); n > 120_000 {
		t.Errorf("%d bytes", n)
	}
	var xy plotter.XYs
	for _, p := range s.XY {
		xy = append(xy, plotter.XY{X: p[0], Y: p[1]})
	}
	peak := 0.0
	for _, p := range thin(xy, func(x float64) int { return int(x / 100) }) {
		peak = max(peak, p.Y)
	}
	if peak != 1000 {
		t.Errorf("the peak is %v", peak)
	}
}

func TestStepsAreSteps(t *testing.T) {
	t.Parallel()
	c := Chart{Series: []Series{{Steps: true, XY: [][2]float64{{0, 0}, {5, 1}, {10, 0}}}}}
	svg := drawIn(t, c, wide()).svg
	path := regexp.MustCompile(`<path d="([^"]*)"[^>]*--series-0`).FindStringSubmatch(svg)
	if len(path) != 2 || strings.Count(path[1], "L") != 4 {
		t.Errorf("path %q", path)
	}
}

// No name of a mark overlaps another, and none leaves the picture.
func TestNamesOfMarksDoNotOverlap(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a very long name ", 9)
	for name, marks := range map[string][]Mark{
		"crowded": {{0, "load begins"}, {50, "worker stopped"}, {51, "restart signal"}, {51, "page"}, {52, "pool empty"}, {99, "worker back"}, {100, "full again"}},
		"long":    {{0, long}, {50, long}, {100, long}},
	} {
		for _, f := range []format{wide(), narrow()} {
			c := Chart{Series: []Series{{XY: [][2]float64{{0, 0}, {100, 1}}}}, Marks: marks}
			drawIn(t, c, f) // it can be drawn
			n := names{Style: text.Style{Font: f.font(), Handler: plot.DefaultTextHandler}}
			tags, _ := n.place(latest(marks, c.X.shows), f.width, func(x float64) vg.Length { return f.width * vg.Length(x/100) })
			if len(tags) != len(marks) {
				t.Errorf("%s: %d tags for %d marks", name, len(tags), len(marks))
			}
			for i, a := range tags {
				if a.from < 0 || a.end > f.width+vg.Length(0.01) {
					t.Errorf("%s: %q from %v to %v of %v", name, a.name, a.from, a.end, f.width)
				}
				for _, b := range tags[:i] {
					if a.row == b.row && a.from < b.end && b.from < a.end {
						t.Errorf("%s: %q overlaps %q", name, a.name, b.name)
					}
				}
			}
		}
	}
}
