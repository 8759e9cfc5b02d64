package plan

import (
	"fmt"

	"keypool/loadtest/report"
)

// points is the number of points of a chart.
const points = 200

// addCharts adds the charts to the sections of the document.
func (p *Plan) addCharts(sections []report.Section) {
	in := p.Input
	years, horizon := report.Axis{Label: "time", Unit: "years"}, float64(in.Years)
	after := func(y func(Year) float64) [][2]float64 {
		return curve(0, horizon, func(x float64) float64 { return y(in.at(x*year, 0)) })
	}
	line := func(name string, xy [][2]float64) report.Series {
		return report.Series{Name: name, Predicted: true, XY: xy}
	}
	sections[sectionYears].Charts = []report.Chart{{
		Title: "Share of the current space that is in use", X: years, Y: report.Axis{Label: "in use", Unit: "%"},
		Series: []report.Series{line("space in use", after(func(y Year) float64 { return 100 * y.Used }))},
		Marks:  p.takeovers(),
	}, {
		Title: "Attempts of the random fallback for each link", X: years, Y: report.Axis{Label: "attempts", Unit: "", Log: true},
		Series: []report.Series{line("attempts", after(func(y Year) float64 { return y.Attempts }))},
		Marks:  p.takeovers(),
	}}
	pool, left := p.Pool, p.Pool.Runway/3600
	sections[sectionPool].Charts = []report.Chart{{
		Title: "Keys in the pool after the worker stops", X: report.Axis{Label: "time", Unit: "h"}, Y: report.Axis{Label: "keys", Unit: ""},
		Series: []report.Series{line("keys in the pool", [][2]float64{{0, float64(pool.Capacity)}, {left, 0}})},
		Levels: []report.Mark{{At: pool.RestartBelow, Name: "restart"}, {At: pool.PageBelow, Name: "page"}},
	}}
	unit, scale := "GB", 1e9
	if p.Database.TableBytes > 1e13 {
		unit, scale = "TB", 1e12
	}
	sections[sectionDatabase].Charts = []report.Chart{{
		Title: "Size of the database", X: years, Y: report.Axis{Label: "size", Unit: unit},
		Series: []report.Series{
			line("table and indexes in PostgreSQL", after(func(y Year) float64 { return (y.TableBytes + y.IndexBytes) / scale })),
			line("SQLite", after(func(y Year) float64 { return float64(y.Links) * sqliteBytesPerLink / scale })),
		},
	}}
	links := max(1, in.links(horizon*year))
	sections[sectionRedirects].Charts = []report.Chart{{
		Title: "Hit rate of the cache of a server", X: report.Axis{Label: "Zipf exponent"}, Y: report.Axis{Label: "hit rate", Unit: "%"},
		Series: []report.Series{line("hit rate", curve(smallestZipf, greatestZipf, func(s float64) float64 { return 100 * hitRatio(cachedLinks, links, s) }))},
	}}
}

// takeovers returns the times at which all codes of one length are in use and longer codes
// begin.
func (p *Plan) takeovers() (all []report.Mark) {
	for i, s := range p.Spaces[:len(p.Spaces)-1] {
		if at := s.FullAfter / year; at < float64(p.Input.Years) {
			all = append(all, report.Mark{At: at, Name: fmt.Sprintf("codes of %d characters begin", p.Spaces[i+1].Length)})
		}
	}
	return all
}

// curve returns points of the function f from x = lo to x = hi.
func curve(lo, hi float64, f func(float64) float64) (xy [][2]float64) {
	for i := range points + 1 {
		x := lo + (hi-lo)*float64(i)/points
		xy = append(xy, [2]float64{x, f(x)})
	}
	return xy
}
