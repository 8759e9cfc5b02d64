package transfer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"keypool/shortener"
)

// table describes the columns of a CSV file (RFC 4180). The first line of the file contains the names of the columns.
type table struct {
	columns []column
	// If strict is true, a file with unknown columns is an error. If strict is false, unknown columns are
	// ignored, because files of other services have columns that this program does not need.
	strict bool
}

// column is a column of a CSV file.
type column struct {
	name        string
	errorMember string // member of the record; an error of this member names the column instead; "" if no error needs another name
	required    bool
	// set sets a member of the record. If the text is invalid, set returns an error that describes the valid texts.
	// If set is nil, the column is ignored.
	set func(r *Record, text string) error
}

// name returns the name of the column for a member.
func (t *table) name(member string) string {
	for _, c := range t.columns {
		if c.errorMember == member {
			return c.name
		}
	}
	return member
}

// errHeader reports that the first line of a file does not have the names of the columns.
var errHeader = errors.New("the first line must have the names of the columns")

// header returns the columns of a file in their order. For an unknown column, the result contains nil.
func (t *table) header(names []string) ([]*column, error) {
	found := make([]*column, len(names))
	for i, name := range names {
		if name = strings.TrimSpace(name); strings.Contains(name, "\r") {
			return nil, fmt.Errorf("%w: it contains a carriage return; each line must end with a line feed", errHeader)
		}
		j := slices.IndexFunc(t.columns, func(c column) bool { return strings.EqualFold(c.name, name) })
		switch {
		case j >= 0 && slices.Contains(found, &t.columns[j]):
			return nil, fmt.Errorf("%w: the column %q occurs twice", errHeader, name)
		case j >= 0:
			found[i] = &t.columns[j]
		case t.strict:
			return nil, fmt.Errorf("%w: there is no column %.40q; the columns are %s", errHeader, name, t.names())
		}
	}
	for i := range t.columns {
		if c := &t.columns[i]; c.required && !slices.Contains(found, c) {
			return nil, fmt.Errorf("%w: the column %q is missing; the columns are %s", errHeader, c.name, t.names())
		}
	}
	return found, nil
}

func (t *table) names() string {
	var names []string
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// readTable yields the records of a CSV file.
func readTable(file io.Reader, t *table) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		rows := newRows(file)
		names, number, refusal, err := rows.next()
		if errors.Is(err, io.EOF) {
			err = errHeader
		}
		if err = errors.Join(err, refusal); err != nil {
			yield(Line{Number: number}, fmt.Errorf("read the first line: %w", err))
			return
		}
		columns, err := t.header(names)
		if err != nil {
			yield(Line{Number: number}, err)
			return
		}
		for {
			fields, number, refusal, err := rows.next()
			if errors.Is(err, io.EOF) {
				return
			}
			line := Line{Number: number, Refusal: refusal}
			if err == nil && refusal == nil {
				line.Record, line.Refusal = parseRow(columns, fields)
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// errNotUTF8 refuses a record that is not UTF-8. Without this check, the URL of the link would contain the bytes of another
// encoding.
var errNotUTF8 = errors.New("must be UTF-8 text: convert the file to UTF-8")

// parseRow returns the record with these fields.
func parseRow(columns []*column, fields []string) (r Record, refusal error) {
	if len(fields) != len(columns) {
		return r, fmt.Errorf("must have %d fields, like the first line of the file, and has %d", len(columns), len(fields))
	}
	r = newRecord()
	for i, c := range columns {
		if c == nil || c.set == nil {
			continue
		}
		err := errNotUTF8
		if utf8.ValidString(fields[i]) {
			err = c.set(&r, fields[i])
		}
		if err != nil && refusal == nil {
			refusal = &shortener.InvalidError{Field: c.name, Reason: err.Error()}
		}
	}
	return r, refusal
}

// rows reads the records of a CSV file one by one. Package csv keeps a whole record in memory, whatever its length. To
// limit the memory, rows gives package csv a bounded reader. After a record that is too long, rows continues with the
// next line.
type rows struct {
	in    bounded
	csv   *csv.Reader
	first int // number of lines before the first line that csv reads
	last  int // number of the last line of the previous record
}

func newRows(file io.Reader) *rows {
	r := &rows{in: bounded{r: bufio.NewReaderSize(file, maxRecord)}}
	skipMark(r.in.r)
	r.restart()
	return r
}

func (r *rows) restart() {
	r.first = r.in.lines
	r.csv = csv.NewReader(&r.in)
	r.csv.FieldsPerRecord = -1 // parseRow reports a wrong number of fields
	r.csv.ReuseRecord = true
}

// next returns the fields of the next record and the number of its first line. The fields are valid until the next
// call. If the record is too long or is not valid CSV, refusal is the reason, and fields is nil. After the last record, err is
// io.EOF.
func (r *rows) next() (fields []string, number int, refusal, err error) {
	r.in.left, r.in.exceeded = maxRecord, false
	fields, err = r.csv.Read()
	var syntax *csv.ParseError
	switch {
	case r.in.exceeded:
		number = r.last + 1
		err = r.in.skipLine()
		r.last = r.in.lines
		r.restart()
		return nil, number, errTooLong, err
	case errors.As(err, &syntax):
		r.last = r.first + syntax.Line
		return nil, r.first + syntax.StartLine, fmt.Errorf("must be a CSV record: %w in column %d", syntax.Err, syntax.Column), nil
	case err != nil:
		return nil, r.last + 1, nil, err
	}
	line, _ := r.csv.FieldPos(0)
	number = r.first + line
	r.last = number
	for _, field := range fields {
		r.last += strings.Count(field, "\n")
	}
	return fields, number, nil, nil
}

// bounded is a reader that fails with errTooLong after left bytes.
type bounded struct {
	r        *bufio.Reader
	left     int
	exceeded bool // whether a read failed because left was 0
	lines    int  // number of line ends that were read
	inLine   bool // whether the reader is within a line
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.exceeded = true
		return 0, errTooLong
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	b.note(p[:n])
	return n, err
}

func (b *bounded) note(read []byte) {
	if len(read) == 0 {
		return
	}
	b.lines += bytes.Count(read, []byte{0x0a})
	b.inLine = read[len(read)-1] != '\n'
}

// skipLine discards the rest of the present line.
func (b *bounded) skipLine() error {
	for b.inLine {
		part, err := b.r.ReadSlice('\n')
		b.note(part)
		switch {
		case errors.Is(err, io.EOF):
			return nil // the next read returns io.EOF again
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
	return nil
}
