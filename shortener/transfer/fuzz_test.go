package transfer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fuzz reads files of a format. If a record passes the check, it must be the same after an export and an
// import, in CSV and in NDJSON.
func fuzz(f *testing.F, format Format, seed string) {
	file, err := os.ReadFile(filepath.Join("testdata", seed))
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(file) {
		f.Add(line)
	}
	header, _, _ := bytes.Cut(file, []byte("\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		readAll(t, format, text)
		if format != NDJSON && format != Golink {
			readAll(t, format, append(append(bytes.Clone(header), '\n'), text...))
		}
	})
}

func readAll(t *testing.T, format Format, text []byte) {
	t.Helper()
	i := testImporter()
	i.Rules.Exported = format.exported()
	last := 0
	for line, err := range Read(format, bytes.NewReader(text)) {
		if err != nil {
			return
		}
		if line.Number <= last {
			t.Fatalf("line %d follows line %d", line.Number, last)
		}
		last = line.Number
		c := i.check(format, &line)
		if c.refusal != nil {
			continue
		}
		want := recordOf(&c.link, i.Owners)
		want.Visits = c.visits
		for _, f := range []Format{CSV, NDJSON} {
			if diff := cmp.Diff(want, again(t, i, f, &want)); diff != "" {
				t.Fatalf("a record before and after an export as %s (-before +after):\n%s", f, diff)
			}
		}
	}
	if lines := bytes.Count(text, []byte("\n")) + 1; last > lines {
		t.Fatalf("the last record is in line %d of %d", last, lines)
	}
}

// again writes a record to a file in a format, and returns the record that an import reads from this file.
func again(t *testing.T, i *Importer, f Format, r *Record) (got Record) {
	t.Helper()
	var file bytes.Buffer
	w, err := newWriter(f, &file)
	if err == nil {
		err = w.write(r)
	}
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	i.Rules.Exported = true
	for line, err := range Read(f, &file) {
		if err != nil {
			t.Fatal(err)
		}
		c := i.check(f, &line)
		if c.refusal != nil {
			t.Fatalf("a record of an export: %v", c.refusal)
		}
		got = recordOf(&c.link, i.Owners)
		got.Visits = c.visits
	}
	return got
}

func FuzzImportCSV(f *testing.F)    { fuzz(f, CSV, "csv.csv") }
func FuzzImportNDJSON(f *testing.F) { fuzz(f, NDJSON, "ndjson.jsonl") }
func FuzzImportShlink(f *testing.F) { fuzz(f, Shlink, "shlink.csv") }
func FuzzImportYOURLS(f *testing.F) { fuzz(f, YOURLS, "yourls.csv") }
func FuzzImportKutt(f *testing.F)   { fuzz(f, Kutt, "kutt.csv") }
func FuzzImportGolink(f *testing.F) { fuzz(f, Golink, "golink.jsonl") }
