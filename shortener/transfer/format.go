package transfer

import (
	"errors"
	"io"
	"iter"
)

// Format is the format of a file that describes links.
type Format string

// The formats. CSV and NDJSON are the formats of this program. The others are formats of other services.
const (
	CSV    Format = "csv"
	NDJSON Format = "ndjson"
	Shlink Format = "shlink" // CSV file of the web client of shlink
	YOURLS Format = "yourls" // CSV file with the columns of the table of links in YOURLS
	Kutt   Format = "kutt"   // CSV file of the table of links in Kutt
	Golink Format = "golink" // JSON lines of an export of golink
)

// Line is the result of reading one record.
type Line struct {
	Number  int // number of the first line of the record in the file, counted from 1
	Record  Record
	Refusal error // why the record cannot be read; nil if it can be read
}

// maxRecord is the maximum number of bytes of a record. It limits the memory of a reader. The longest record of an
// export has about 13 KiB.
const maxRecord = 64 << 10

// errTooLong is the refusal of a record that is longer than maxRecord.
var errTooLong = errors.New("must be at most 64 KiB long; in a CSV file, a quotation mark may be missing")

// Read yields the records of a file. It reads the file while the caller iterates. The sequence ends after the
// first error. For example, it is an error if a CSV file lacks a required column of the format.
func Read(f Format, file io.Reader) iter.Seq2[Line, error] {
	switch f {
	case NDJSON:
		return readJSON(file, parseRecord)
	case Golink:
		return readJSON(file, parseGolink)
	}
	return readTable(file, tableOf(f))
}

func tableOf(f Format) *table {
	switch f {
	case Shlink:
		return shlinkTable()
	case YOURLS:
		return yourlsTable()
	case Kutt:
		return kuttTable()
	}
	return csvTable()
}

// exported reports whether this program writes files of the format.
func (f Format) exported() bool { return f == CSV || f == NDJSON }

// column returns the name of a member of a record in files of the format.
func (f Format) column(member string) string {
	switch f {
	case NDJSON, CSV:
	case Golink:
		return golinkName(member)
	default:
		return tableOf(f).name(member)
	}
	return member
}
