package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func encoded(t *testing.T, r *Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadReturnsReportThatWriteWrote(t *testing.T) {
	t.Parallel()
	got, err := Read(bytes.NewReader(encoded(t, sample())))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("the report that was read differs (-written +read):\n%s", d)
	}
}

func TestReadRefusesInvalidReports(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{"schema":1,"experiments":{"new":"shape"}}`: "the file has schema 1, this program reads 2",
		`{"sent":12}`:                          "the file has schema 0",
		`{"schema":2,"experiments":3}`:         "unmarshal JSON number",
		`{"schema":2} {"schema":2}`:            "after top-level value",
		`{"schema":2,"experiments":[{"claims"`: "unexpected EOF",
		``:                                     "unexpected EOF",
	} {
		_, err := Read(strings.NewReader(content))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

// Write omits NaN and infinities. If it refused them, one NaN would prevent the report of a long run.
func TestWriteOmitsFiguresThatAreNotFinite(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	r := &Report{Experiments: []Experiment{{
		Claims: []Claim{{Name: "p99", Outcome: Held, Predicted: ptr(10), Observed: &nan}},
		Charts: []Chart{{
			Series: []Series{{XY: [][2]float64{{0, 1}, {1, nan}, {math.Inf(1), 2}, {3, 4}}}},
			Marks:  []Mark{{nan, "not seen"}, {2, "once"}}, Levels: []Mark{{math.Inf(-1), "no bottom"}},
		}},
	}}}
	got, err := Read(bytes.NewReader(encoded(t, r)))
	if err != nil {
		t.Fatal(err)
	}
	s := got.Experiments[0]
	if c := s.Claims[0]; c.Observed != nil || *c.Predicted != 10 {
		t.Errorf("the claim is %+v, want no observed figure and the prediction 10", c)
	}
	want := Chart{Series: []Series{{XY: [][2]float64{{0, 1}, {3, 4}}}}, Marks: []Mark{{2, "once"}}}
	if d := cmp.Diff(want, s.Charts[0]); d != "" {
		t.Errorf("the chart differs (-want +got):\n%s", d)
	}
	if r.Experiments[0].Claims[0].Observed != &nan {
		t.Error("writing changed the report")
	}
}

func TestReportFitsSchema(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.NewCompiler().Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	fits := func(content []byte) error {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(document)
	}
	for name, r := range map[string]*Report{
		"sample": sample(), "empty": {}, "empty parts": {Experiments: []Experiment{{
			Name: "a", Charts: []Chart{{Series: []Series{{}}}}, Tables: []Table{{Rows: [][]string{{}}}},
			Claims: []Claim{{Name: "b", Kind: Speed, Outcome: NotJudged}},
		}}},
	} {
		if err := fits(encoded(t, r)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range [][2]string{
		{`"outcome":"failed"`, `"outcome":"perhaps"`}, {`"kind":"bar"`, `"kind":"wish"`}, {`"commit"`, `"comit"`}, {`"schema":2`, `"schema":1`}, {`"seconds":192.4`, `"seconds":"long"`},
	} {
		broken := strings.Replace(string(encoded(t, sample())), wrong[0], wrong[1], 1)
		if fits([]byte(broken)) == nil {
			t.Errorf("the schema accepts %s", wrong[1])
		}
	}
}

func TestSchemaHasEveryMemberOfReport(t *testing.T) {
	t.Parallel()
	content := struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}{}
	file, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &content); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		"": Report{}, "machine": Machine{}, "experiment": Experiment{}, "claim": Claim{}, "control": Control{}, "chart": Chart{}, "axis": Axis{},
		"series": Series{}, "mark": Mark{}, "table": Table{},
	} {
		described := content.Properties
		if name != "" {
			described = content.Defs[name].Properties
		}
		var members []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			members = append(members, member)
		}
		slices.Sort(members)
		if d := cmp.Diff(members, slices.Sorted(maps.Keys(described))); d != "" {
			t.Errorf("the members of %T differ (-type +schema):\n%s", v, d)
		}
	}
}
