package report

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Read reads a report to the end of r. It ignores members that it does not know. It is an error when another
// version of this program wrote the report in another Schema.
func Read(r io.Reader) (*Report, error) {
	content, err := io.ReadAll(r)
	// The schema comes first: with another one all else may have any shape.
	var head struct {
		Schema int `json:"schema"`
	}
	if err == nil {
		err = json.Unmarshal(content, &head)
	}
	if err == nil && head.Schema != Schema {
		err = fmt.Errorf("the file has schema %d, this program reads %d", head.Schema, Schema)
	}
	report := new(Report)
	if err == nil {
		err = json.Unmarshal(content, report)
	}
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return report, nil
}

// Write writes the report as JSON in one line that fits schema.json. Its schema number is always Schema.
func Write(w io.Writer, r *Report) error {
	current := *r
	current.Schema = Schema
	return written("report", json.MarshalWrite(w, &current, json.Deterministic(true), json.WithMarshalers(finiteOnly())))
}

// finiteOnly omits figures that JSON cannot hold: a figure of a claim becomes null, which omitempty
// omits, and points and marks without a place are left out.
func finiteOnly() *json.Marshalers {
	type points [][2]float64
	type marks []Mark
	return json.JoinMarshalers(
		json.MarshalToFunc(func(e *jsontext.Encoder, v float64) error {
			if finite(v) {
				return json.SkipFunc
			}
			return e.WriteToken(jsontext.Null)
		}),
		json.MarshalToFunc(func(e *jsontext.Encoder, all [][2]float64) error {
			return json.MarshalEncode(e, points(keep(all, func(p [2]float64) bool { return finite(p[0]) && finite(p[1]) })))
		}),
		json.MarshalToFunc(func(e *jsontext.Encoder, all []Mark) error {
			return json.MarshalEncode(e, marks(keep(all, func(m Mark) bool { return finite(m.At) })))
		}),
	)
}

// keep is the elements that are ok.
func keep[T any](all []T, ok func(T) bool) (kept []T) {
	for _, v := range all {
		if ok(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// written adds to err what could not be written.
func written(what string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}
