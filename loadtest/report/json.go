package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrSchema is the error for a report that another version of this program wrote.
var ErrSchema = errors.New("report has another schema")

// Read reads a report to the end of r. It ignores members that it does not know. A report
// of another Schema is an ErrSchema.
func Read(r io.Reader) (*Report, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	// The schema comes first: with another one all else may have any shape.
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if head.Schema == nil {
		return nil, errors.New("read report: no schema number: the file is not a report of the harness")
	}
	if *head.Schema != Schema {
		return nil, fmt.Errorf("read report: %w: the file has %d, this program reads %d", ErrSchema, *head.Schema, Schema)
	}
	var report Report
	if err := json.Unmarshal(content, &report); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return &report, nil
}

// Write writes the report as JSON in one line that fits schema.json. Its schema number is
// always Schema.
func Write(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return written("report", e.Encode(r.tidy()))
}

// tidy is a copy that JSON can hold: without figures that were not observed, and with empty
// lists where the schema wants a list.
func (r *Report) tidy() *Report {
	tidied := *r
	tidied.Schema = Schema
	tidied.Experiments = convert(r.Experiments, func(e Experiment) Experiment {
		e.Claims = convert(e.Claims, Claim.tidy)
		e.Charts = convert(e.Charts, Chart.tidy)
		e.Tables = convert(e.Tables, func(t Table) Table {
			t.Columns = convert(t.Columns, same)
			t.Rows = convert(t.Rows, func(row []string) []string { return convert(row, same) })
			return t
		})
		return e
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
	for _, marks := range []*[]Mark{&c.Marks, &c.Levels, &c.X.Names, &c.Y.Names} {
		*marks = keep(*marks, func(m Mark) bool { return finite(m.At) })
	}
	c.Series = convert(c.Series, func(s Series) Series {
		s.XY = keep(s.XY, func(p [2]float64) bool { return finite(p[0]) && finite(p[1]) })
		return s
	})
	return c
}

func same(s string) string { return s }

// convert applies f to each element. Its result is never nil.
func convert[T any](all []T, f func(T) T) []T {
	converted := make([]T, len(all))
	for i, v := range all {
		converted[i] = f(v)
	}
	return converted
}

// keep is the elements that are ok. Its result is never nil.
func keep[T any](all []T, ok func(T) bool) []T {
	kept := make([]T, 0, len(all))
	for _, v := range all {
		if ok(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
