package schemes

import (
	"math/big"
	"slices"

	"keypool/loadtest/report"

	"github.com/dustin/go-humanize"
)

const (
	unknown = "–" // stands where something was not measured
	nobody  = "nobody"
)

// row is one kind of figures, some of each scheme: points of one colour in a chart.
type row struct {
	name   string
	points []point
}

type point struct {
	scheme string
	value  float64
}

func (r *row) add(scheme string, values ...float64) {
	for _, v := range values {
		r.points = append(r.points, point{scheme, v})
	}
}

// rows is a chart with a line for each scheme that has figures, the first at the top.
func (c *Comparison) rows(title, label, unit string, kinds ...row) report.Chart {
	has := func(name string) bool {
		return slices.ContainsFunc(kinds, func(r row) bool {
			return slices.ContainsFunc(r.points, func(p point) bool { return p.scheme == name })
		})
	}
	at := make(map[string]float64)
	chart := report.Chart{Title: title, X: report.Axis{Label: label, Unit: unit}, Y: report.Axis{}}
	for _, s := range slices.Backward(c.schemes) {
		if has(s.name) {
			at[s.name] = float64(len(at))
			chart.Y.Names = append(chart.Y.Names, report.Mark{At: at[s.name], Name: s.name})
		}
	}
	for _, kind := range kinds {
		s := report.Series{Name: kind.name, Points: true}
		for _, p := range kind.points {
			s.XY = append(s.XY, [2]float64{p.value, at[p.scheme]})
		}
		chart.Series = append(chart.Series, s)
	}
	return chart
}

// blank is the row of a scheme of which nothing is known.
func blank(name string, columns int) []string {
	cells := slices.Repeat([]string{unknown}, columns)
	cells[0] = name
	return cells
}

func percent(share float64) string { return humanize.FtoaWithDigits(100*share, 1) + " %" }

func commas(n int64) string { return humanize.Comma(n) }

// sizeOf is how many codes of a class there are.
func sizeOf(name string) float64 {
	size, _ := new(big.Float).SetInt(classOf(name).size).Float64()
	return size
}
