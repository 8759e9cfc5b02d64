package transfer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"keypool/shortener"
	"keypool/shortener/visits"
)

// AllLinks is the part of a [shortener.Store] that an export needs.
type AllLinks interface {
	Oldest(ctx context.Context) iter.Seq2[shortener.Link, error]
}

// Visits reads the numbers of visits of links. [visits.Store] implements it.
type Visits interface {
	// Totals returns the numbers of all visits that are in the database, by code. A code without visits is absent. Totals
	// blocks until the database answers or ctx ends.
	Totals(ctx context.Context, codes []string) (map[string]visits.Count, error)
}

// Exporter exports all links.
type Exporter struct {
	Links AllLinks
	// Owners returns the names of all tokens. Run calls Owners at most once, and only after Run has begun to read the links.
	// So the result includes the owner of each link.
	Owners   func(context.Context) (*Owners, error)
	Visits   Visits
	Progress func(links int64) // gets the number of links written so far, after each part
}

// totalsTimeout is the time limit for reading the visits of one part. It is long, because the links of a part may have
// millions of rows of visits.
const totalsTimeout = 5 * time.Minute

// recordWriter writes the records of an export.
type recordWriter interface {
	write(r *Record) error
	flush() error
}

// newWriter returns a writer for an export in the format CSV or NDJSON.
func newWriter(f Format, file io.Writer) (recordWriter, error) {
	if f == CSV {
		return newCSVWriter(file)
	}
	return jsonWriter{bufio.NewWriter(file)}, nil
}

// Run writes all links to file, from the oldest to the newest. The format must be CSV or NDJSON. The links are in the state
// that they had when Run began, except on Citus. The visits may be newer.
func (e *Exporter) Run(ctx context.Context, f Format, file io.Writer) error {
	w, err := newWriter(f, file)
	if err != nil {
		return err
	}
	part := make([]Record, 0, partSize)
	var written int64
	var owners *Owners
	for link, err := range e.Links.Oldest(ctx) {
		if err != nil {
			return err
		}
		if owners == nil {
			if owners, err = e.Owners(ctx); err != nil {
				return err
			}
		}
		if link.Owner() != 0 && owners.name(link.Owner()) == "" {
			return fmt.Errorf("the owner of the link %q is not a token: %d", link.Code, link.Owner())
		}
		if part = append(part, recordOf(&link, owners)); len(part) < partSize {
			continue
		}
		if err := e.write(ctx, w, part); err != nil {
			return err
		}
		written += int64(len(part))
		e.Progress(written)
		part = part[:0]
	}
	if err := e.write(ctx, w, part); err != nil {
		return err
	}
	e.Progress(written + int64(len(part)))
	return w.flush()
}

// write adds the visits to records and writes them.
func (e *Exporter) write(ctx context.Context, w recordWriter, records []Record) error {
	if err := e.addVisits(ctx, records); err != nil {
		return fmt.Errorf("read the visits: %w", err)
	}
	for i := range records {
		if err := w.write(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

// addVisits sets the visits of records.
func (e *Exporter) addVisits(ctx context.Context, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	codes := make([]string, len(records))
	for i := range records {
		codes[i] = records[i].Code
	}
	ctx, cancel := context.WithTimeout(ctx, totalsTimeout)
	defer cancel()
	totals, err := e.Visits.Totals(ctx, codes)
	for i := range records {
		records[i].Visits = Total(totals[records[i].Code])
	}
	return err
}
