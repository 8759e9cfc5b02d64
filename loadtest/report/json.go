package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrSchema is the error of a report that another version of this program wrote.
var ErrSchema = errors.New("report has another schema")

// Read reads a report to the end of r. One of another Schema is ErrSchema; members that
// this version does not know are passed over.
func Read(r io.Reader) (*Report, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	// First the number alone: what else there is may have any shape.
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if head.Schema == nil {
		return nil, errors.New("read report: it has no schema number, so it is no report of the harness")
	}
	if *head.Schema != Schema {
		return nil, fmt.Errorf("read report: %w: it is %d, and this program reads %d", ErrSchema, *head.Schema, Schema)
	}
	var report Report
	if err := json.Unmarshal(content, &report); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return &report, nil
}

// Write writes the report as JSON that fits schema.json, in the Schema of this program. It
// is one line: with each point of each chart on lines of its own it would be many times as
// long, and no easier to read.
func Write(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(r.tidy()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// tidy gives a copy that JSON can hold: without figures that are none, and with empty
// lists where the schema wants a list.
func (r *Report) tidy() *Report {
	tidied := *r
	tidied.Schema = Schema
	tidied.Scenarios = convert(r.Scenarios, func(s Scenario) Scenario {
		s.Claims = convert(s.Claims, Claim.tidy)
		s.Charts = convert(s.Charts, Chart.tidy)
		s.Tables = convert(s.Tables, func(t Table) Table {
			t.Columns = convert(t.Columns, func(name string) string { return name })
			t.Rows = convert(t.Rows, func(row []string) []string { return row })
			return t
		})
		return s
	})
	return &tidied
}

func (c Claim) tidy() Claim {
	for _, figure := range []**float64{&c.Predicted, &c.Observed} {
		if *figure != nil && !finite(**figure) {
			*figure = nil
		}
	}
	return c
}

func (c Chart) tidy() Chart {
	known := func(m Mark) bool { return finite(m.At) }
	c.Marks, c.Levels = keep(c.Marks, known), keep(c.Levels, known)
	c.X.Names, c.Y.Names = keep(c.X.Names, known), keep(c.Y.Names, known)
	c.Series = convert(c.Series, func(s Series) Series {
		s.XY = keep(s.XY, func(p [2]float64) bool { return finite(p[0]) && finite(p[1]) })
		return s
	})
	return c
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// convert gives what f makes of each, never nil.
func convert[T any](all []T, f func(T) T) []T {
	converted := make([]T, len(all))
	for i, v := range all {
		converted[i] = f(v)
	}
	return converted
}

// keep gives those that are ok, never nil.
func keep[T any](all []T, ok func(T) bool) []T {
	kept := make([]T, 0, len(all))
	for _, v := range all {
		if ok(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
