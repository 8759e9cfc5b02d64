package report

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Read reads a report from r, which must contain nothing else. It ignores unknown members. If the
// schema of the report is not [Schema], because a different release of this program wrote it, Read
// returns an error.
func Read(r io.Reader) (*Report, error) {
	content, err := io.ReadAll(r)
	// Check the schema first, because a member may have a different type in a different schema.
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

// Write writes the report as one line of JSON that conforms to schema.json. The member schema is always [Schema].
func Write(w io.Writer, r *Report) error {
	current := *r
	current.Schema = Schema
	return written("report", json.MarshalWrite(w, &current, json.Deterministic(true), json.WithMarshalers(finiteOnly())))
}

// finiteOnly omits figures that JSON cannot represent. A figure of a claim becomes null, which omitempty
// omits. Points and marks with such a figure are left out.
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

// keep returns the elements for which ok returns true.
func keep[T any](all []T, ok func(T) bool) (kept []T) {
	for _, v := range all {
		if ok(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// written returns err with the text "write what" before it, or nil if err is nil.
func written(what string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}
