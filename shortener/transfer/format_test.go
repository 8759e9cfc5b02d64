package transfer

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/token"
)

var update = flag.Bool("update", false, "write the golden files")

// testOwners returns the owners whose names occur in the files in testdata.
func testOwners() *Owners {
	return NewOwners([]token.Token{{ID: 1, Name: "ci"}, {ID: 2, Name: "amelie@example.com"}, {ID: 3, Name: "foo@example.com"}})
}

// testImporter returns an importer without a database.
func testImporter() *Importer {
	self, _ := destination.ParseOrigin("https://go.example")
	return &Importer{Owners: testOwners(), Rules: shortener.ImportRules{Self: self, Now: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)}}
}

// checked returns a text with the link or the refusal for each record of a file.
func checked(t *testing.T, f Format, file io.Reader) string {
	t.Helper()
	var out strings.Builder
	i := testImporter()
	i.Rules.Exported = f.exported()
	for line, err := range Read(f, file) {
		if err != nil {
			fmt.Fprintf(&out, "line %d: %v\n", line.Number, err)
			break
		}
		c := i.check(f, &line)
		if c.refusal != nil {
			fmt.Fprintln(&out, Refusal{c.line, c.code, c.refusal})
			continue
		}
		r := recordOf(&c.link, i.Owners)
		r.Visits = c.visits
		text, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "line %d: %s\n", line.Number, text)
	}
	return out.String()
}

func TestReadParsesFilesOfEveryFormat(t *testing.T) {
	t.Parallel()
	for f, name := range map[Format]string{
		CSV: "csv.csv", NDJSON: "ndjson.jsonl", Shlink: "shlink.csv", YOURLS: "yourls.csv", Kutt: "kutt.csv", Golink: "golink.jsonl",
	} {
		file, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		got, golden := checked(t, f, bytes.NewReader(file)), filepath.Join("testdata", string(f)+".golden")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadFailsForFileWithWrongHeader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		format     Format
		file, want string
	}{
		{YOURLS, "", "line 1: read the first line: the first line must have the names of the columns\n"},
		{YOURLS, "ozh,http://ozh.org/,Ozh,2010-08-17 15:18:38,127.0.0.1,42\n", `the column "keyword" is missing; the columns are keyword, url, title, timestamp, ip, clicks`},
		{YOURLS, "keyword;url;title\n", `the column "keyword" is missing`},
		{YOURLS, "keyword,url,title\rozh,http://ozh.org/,Ozh\r", `it contains a carriage return; each line must end with a line feed`},
		{YOURLS, "keyword,url,keyword\n", `the column "keyword" occurs twice`},
		{CSV, "code,url,short_url\n", `there is no column "short_url"; the columns are code, url, created_at`},
		{CSV, `"code,url`, "extraneous or missing"},
		{Shlink, `shortCode,shortUrl` + "\n", `the column "longUrl" is missing`},
	} {
		if got := checked(t, tt.format, strings.NewReader(tt.file)); !strings.Contains(got, tt.want) {
			t.Errorf("%s %q: %s, want %s", tt.format, tt.file, got, tt.want)
		}
	}
}

// endless returns a file that consists of begin, n equal bytes and end.
func endless(begin string, n int64, end string) io.Reader {
	return io.MultiReader(strings.NewReader(begin), io.LimitReader(same(strings.Repeat("x", 64<<10)), n), strings.NewReader(end))
}

// same is a reader that returns the same bytes again and again, and never ends.
type same string

func (s same) Read(p []byte) (int, error) { return copy(p, s), nil }

// A URL in another encoding would lead to another page.
func TestReadRefusesCSVRecordsInOtherEncodings(t *testing.T) {
	t.Parallel()
	const file = "keyword,url,title\nkoeln,https://example.com/K\xf6ln,\nmuc,https://example.com/,M\xfcnchen\nok,https://example.com/Köln,München\n"
	got := checked(t, YOURLS, strings.NewReader(file))
	for _, want := range []string{
		`line 2, "koeln": url must be UTF-8 text`, `line 3, "muc": title must be UTF-8 text`, `line 4: {"code":"ok","url":"https://example.com/K%C3%B6ln"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in:\n%s", want, got)
		}
	}
}

// A record that is too long must be refused, and the next line must be read. The whole record must never be in
// memory. The test is not parallel, because it measures the memory of the process.
func TestReadRefusesTooLongRecords(t *testing.T) {
	const gigabyte = 1 << 30
	ok := `"code":"b","url":"https://example.com/b"`
	for _, tt := range []struct {
		name        string
		format      Format
		file        io.Reader
		long, after int // first line of the long record, and first line of the next record; 0 if there is no such record
	}{
		{"JSON", NDJSON, endless("{}\n", gigabyte, "\n{"+ok+"}\n"), 2, 3},
		{"CSV", CSV, endless("code,url\na,https://example.com/\na,https://example.com/", gigabyte, "\nb,https://example.com/b\n"), 3, 4},
		{"quoted CSV", CSV, endless("code,url\na,\"https://example.com/\n\n", gigabyte, "\nb,https://example.com/b\n"), 2, 5},
		{"CSV with a bare quote", CSV, endless("code,url\na,\"b\"c", gigabyte, "\nb,https://example.com/b\n"), 2, 3},
		{"CSV without an end", CSV, endless("code,url\na,", gigabyte, ""), 2, 0},
	} {
		var long, after int
		before := allocated()
		for line, err := range Read(tt.format, tt.file) {
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if line.Refusal != nil && strings.Contains(line.Refusal.Error(), "64 KiB") {
				long = line.Number
			}
			if line.Record.Code == "b" {
				after = line.Number
			}
		}
		if long != tt.long || after != tt.after {
			t.Errorf("%s: the long record is in line %d and the next record in line %d, want %d and %d", tt.name, long, after, tt.long, tt.after)
		}
		if grown := allocated() - before; grown > 4<<20 {
			t.Errorf("%s: %d bytes were allocated", tt.name, grown)
		}
	}
}

// Records that wait for their insert must need little memory, even if their lines are long. The test is not parallel,
// because it measures the memory of the process.
func TestRecordsWithLongLinesNeedLittleMemory(t *testing.T) {
	const lines = 200
	long := strings.Repeat("x", 60<<10)
	for name, line := range map[string]string{
		"ignored column": "code%d,https://example.com/,A title," + long + "\n",
		"invalid code":   "code%d" + long + ",https://example.com/,A title,\n",
		"invalid title":  "code%d,https://example.com/," + long + ",\n",
	} {
		var file strings.Builder
		file.WriteString("keyword,url,title,ip\n")
		for n := range lines {
			fmt.Fprintf(&file, line, n)
		}
		i := testImporter()
		var kept []candidate
		before := inUse()
		for line, err := range Read(YOURLS, strings.NewReader(file.String())) {
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, i.check(YOURLS, &line))
		}
		if grown := inUse() - before; len(kept) != lines || grown > 2<<20 {
			t.Errorf("%s: %d records need %d bytes", name, len(kept), grown)
		}
		runtime.KeepAlive(kept)
		runtime.KeepAlive(&file)
	}
}

// An unclosed quotation mark hides only the records in about the next 64 KiB. The later records are read.
func TestUnclosedQuotationMarkDoesNotHideLaterRecords(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	file.WriteString("code,url\n\"a,https://example.com/\n")
	const records = 5000
	for n := range records {
		fmt.Fprintf(&file, "c%d,https://example.com/\n", n)
	}
	read, first := 0, 0
	for line, err := range Read(CSV, strings.NewReader(file.String())) {
		if err != nil {
			t.Fatal(err)
		}
		if line.Refusal == nil {
			if first == 0 {
				first = line.Number
			}
			if want := fmt.Sprintf("c%d", line.Number-3); line.Record.Code != want {
				t.Fatalf("line %d has the code %q, want %q", line.Number, line.Record.Code, want)
			}
			read++
		}
	}
	if want := records - (first - 3); read != want || first > 3000 {
		t.Errorf("%d records were read, from line %d on; want %d", read, first, want)
	}
}
