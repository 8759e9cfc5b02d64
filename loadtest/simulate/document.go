package simulate

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"keypool/internal/human"
	"keypool/loadtest/plan"
	"keypool/loadtest/report"
)

// WriteText writes the simulation for a terminal.
func (s *Simulation) WriteText(w io.Writer) error { return s.document().WriteText(w) }

// HTML writes the simulation as a page with charts.
func (s *Simulation) HTML(w io.Writer) error {
	d := s.document()
	d.Sections[0].Charts = s.charts()
	return d.HTML(w)
}

func (s *Simulation) document() *report.Document {
	in := s.Input
	d := &report.Document{
		Title: "Keypool simulation",
		Lead: fmt.Sprintf("%s on %s in %s; the greatest rate is %s/s.", plan.Count(humanize.Comma(in.Keys), "creation"), plan.Count(humanize.Comma(int64(in.Servers)), "server"),
			human.Duration(in.Duration), report.Number(in.Peak*float64(in.Keys)/in.Duration)),
		Sections: []report.Section{s.totals()},
	}
	if o := s.Outage; o != nil {
		d.Sections = append(d.Sections, section("Redis is down for "+human.Duration(o.Seconds)+" and loses the pool",
			"begins after", human.Duration(o.At),
			"local keys last, at least", human.Duration(o.Shortest),
			"local keys last, on average", human.Duration(o.Mean),
			"local keys last, at most", human.Duration(o.Longest),
			"creations during the outage", humanize.Comma(o.Creations),
			"creations by the fallback during the outage", humanize.Comma(o.Fallback),
			"open breakers, at most", humanize.Comma(int64(o.Open)),
			"time from the end of the outage to the last creation by the fallback", report.Duration(seconds(o.Recovered)),
		))
	}
	if o := s.Worker; o != nil {
		d.Sections = append(d.Sections, section("All workers are down for "+human.Duration(o.Seconds),
			"begins after", human.Duration(o.At),
			"keys in the pool at the start", humanize.Comma(o.Keys),
			"keys in the pool, at least", humanize.Comma(o.Least),
			"creations by the fallback", humanize.Comma(o.Fallback),
		))
	}
	if o := s.Deploy; o != nil {
		d.Sections = append(d.Sections, section("A deploy replaces all servers and workers within "+human.Duration(o.Seconds),
			"begins after", human.Duration(o.At),
			"servers", humanize.Comma(int64(o.Servers)),
			"creations by the fallback", humanize.Comma(o.Fallback),
		))
	}
	d.Sections = append(d.Sections, s.signals(), s.models())
	return d
}

func (s *Simulation) totals() report.Section {
	t := s.Totals
	closes := "yes"
	if !s.Closes {
		closes = "no"
	}
	return section("The whole time",
		"creations", humanize.Comma(t.Creations),
		"creations with keys of the pool", humanize.Comma(t.Used),
		"creations with codes of the fallback", humanize.Comma(t.Fallback),
		"failed creations", humanize.Comma(t.Failed),
		"creations that waited for a key", humanize.Comma(t.Waited),
		"longest wait for a key", report.Duration(seconds(t.Longest)),
		"keys that servers took", humanize.Comma(t.Taken),
		"keys that servers returned", humanize.Comma(t.Returned),
		"keys that servers could not return", humanize.Comma(t.Abandoned),
		"keys on servers at the end", humanize.Comma(t.Held),
		"keys lost with the pool", humanize.Comma(t.Lost),
		"keys used twice", humanize.Comma(t.Twice),
		"every key and creation accounted for", closes,
	)
}

func (s *Simulation) signals() report.Section {
	t := report.Table{Columns: []string{"after", "state", "keys in the pool"}}
	for _, g := range s.Signals {
		t.Rows = append(t.Rows, []string{human.Duration(g.At), g.State, humanize.Comma(g.Keys)})
	}
	return report.Section{Title: "Signals of the dead man's switch", Tables: []report.Table{t}}
}

func (s *Simulation) models() report.Section {
	return report.Section{
		Title: "Constants of the models",
		Text: "The local batches, the fallback, the circuit breakers, the workers and the dead man's switches are the code of the product. " +
			"Redis, the ledger, the network and the clients are models.",
		Tables: []report.Table{plan.ConstantTable(s.Models)},
	}
}

// section returns a section with a table of two columns ([report.Facts]).
func section(title string, cells ...string) report.Section {
	return report.Section{Title: title, Tables: []report.Table{report.Facts(cells...)}}
}

// charts returns the charts of the samples.
func (s *Simulation) charts() []report.Chart {
	x := report.Axis{Label: "time", Unit: "h"}
	line := func(name string, y func(before, at Sample) float64) report.Series {
		out := report.Series{Name: name, Predicted: true}
		for i := 1; i < len(s.Samples); i++ {
			if before, at := s.Samples[i-1], s.Samples[i]; at.At > before.At {
				out.XY = append(out.XY, [2]float64{at.At / 3600, y(before, at)})
			}
		}
		return out
	}
	rate := func(count func(Sample) int64) func(Sample, Sample) float64 {
		return func(before, at Sample) float64 { return float64(count(at)-count(before)) / (at.At - before.At) }
	}
	marks := s.marks()
	capacity := float64(s.Input.Capacity)
	return []report.Chart{{
		Title: "Keys in the pool", X: x, Y: report.Axis{Label: "keys"}, Marks: marks,
		Series: []report.Series{line("keys in the pool", func(_, at Sample) float64 { return float64(at.Pool) })},
		Levels: []report.Mark{{At: 0.2 * capacity, Name: "restart"}, {At: 0.1 * capacity, Name: "page"}},
	}, {
		Title: "Creations by the source of their codes", X: x, Y: report.Axis{Label: "creations", Unit: "/s"}, Marks: marks,
		Series: []report.Series{
			line("all", rate(func(s Sample) int64 { return s.Creations })), line("from the fallback", rate(func(s Sample) int64 { return s.Fallback })),
		},
	}, {
		Title: "Keys in the memory of all servers", X: x, Y: report.Axis{Label: "keys"}, Marks: marks,
		Series: []report.Series{line("local keys", func(_, at Sample) float64 { return float64(at.Local) })},
	}, {
		Title: "Open circuit breakers", X: x, Y: report.Axis{Label: "servers"}, Marks: marks,
		Series: []report.Series{line("open or half-open", func(_, at Sample) float64 { return float64(at.Open) })},
	}}
}

// marks returns the events of the day.
func (s *Simulation) marks() (all []report.Mark) {
	if o := s.Outage; o != nil {
		all = append(all, report.Mark{At: o.At / 3600, Name: "Redis stops"}, report.Mark{At: (o.At + o.Seconds) / 3600, Name: "Redis starts"})
	}
	if o := s.Worker; o != nil {
		all = append(all, report.Mark{At: o.At / 3600, Name: "workers stop"}, report.Mark{At: (o.At + o.Seconds) / 3600, Name: "workers start"})
	}
	if o := s.Deploy; o != nil {
		all = append(all, report.Mark{At: o.At / 3600, Name: "deploy begins"}, report.Mark{At: (o.At + o.Seconds) / 3600, Name: "deploy ends"})
	}
	return all
}
