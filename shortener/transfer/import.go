package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"keypool/shortener"
)

// Importer imports files. Its fields must not change during an import.
type Importer struct {
	Links  Links
	Owners *Owners
	Visits VisitsBeforeImport
	Rules  shortener.ImportRules
	DryRun bool // if true, Run only checks the file and imports nothing
	Pauses bool // if true, Run pauses after each part, so that other processes can write to the database

	// Refuse gets each refusal, in the order of the lines. If Refuse returns an error, the import ends.
	Refuse func(Refusal) error
	// Progress gets the counts so far after each part.
	Progress func(Summary)
}

// Refusal is the reason why a record was not imported.
type Refusal struct {
	Line   int
	Code   string // "" if the code is unknown
	Reason error
}

func (r Refusal) String() string {
	if r.Code == "" {
		return fmt.Sprintf("line %d: %v", r.Line, r.Reason)
	}
	return fmt.Sprintf("line %d, %.64q: %v", r.Line, r.Code, r.Reason)
}

// Summary counts the records of a file. In a dry run, Imported counts the records that an import would insert. There is one
// exception: if several records have the same new code, a dry run counts all of them as Imported, although an import inserts
// only the first of them.
type Summary struct {
	Imported int64
	Present  int64 // records whose links were already in the database
	Refused  int64
}

// Records returns the number of all records.
func (s Summary) Records() int64 { return s.Imported + s.Present + s.Refused }

const (
	// partSize is the maximum number of records of a part. With 1,000 records, the commits take a small fraction of the
	// time of an import. Another writer of an SQLite database waits for only about a tenth of a second.
	partSize = 1000
	// readAhead is the number of parts that may wait for their insert. One more part is read and checked meanwhile.
	readAhead = 2
	// pauseShare is the time that the insert of a part took, divided by the time of the pause after the part. The
	// pause lets a server on the same SQLite database create links. A process that waits for the lock of an SQLite
	// database polls for the lock at growing intervals. Without pauses, the import would nearly always take the lock
	// again before the server finds it free.
	pauseShare = 3
)

// candidate is a record that check has checked.
type candidate struct {
	line    int
	code    string
	link    shortener.Link
	dated   bool // whether the record has the time of its creation
	visits  Total
	refusal error
}

// Run imports a file. If Run fails, some of the records may be imported, and Run may be repeated with the same file. It
// returns soon after ctx ends, except while a read of the file blocks.
//
// Run inserts the parts one after the other. If two records have the same code, Run inserts the first record.
func (i *Importer) Run(ctx context.Context, f Format, file io.Reader) (Summary, error) {
	i.Rules.Exported = f.exported()
	parts := make(chan []candidate, readAhead)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(parts)
		return i.read(ctx, f, file, parts)
	})
	var s Summary
	g.Go(func() error {
		for part := range parts {
			began := time.Now()
			if err := i.insert(ctx, f, part, &s); err != nil {
				return err
			}
			i.Progress(s)
			i.pause(ctx, time.Since(began))
		}
		return nil
	})
	err := g.Wait()
	return s, err
}

// pause waits after a part for a share of the time that the insert of the part took (see pauseShare).
func (i *Importer) pause(ctx context.Context, took time.Duration) {
	if !i.Pauses || i.DryRun {
		return
	}
	select {
	case <-time.After(took / pauseShare):
	case <-ctx.Done():
	}
}

// read reads and checks all records.
func (i *Importer) read(ctx context.Context, f Format, file io.Reader, parts chan<- []candidate) error {
	part := make([]candidate, 0, partSize)
	send := func() error {
		select {
		case parts <- part:
			part = make([]candidate, 0, partSize)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for line, err := range Read(f, file) {
		if err != nil {
			return fmt.Errorf("line %d: %w", line.Number, err)
		}
		if part = append(part, i.check(f, &line)); len(part) == partSize {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

// check returns the link that a line describes, or the refusal of the line. The result shares no memory with the record, which
// may be long.
func (i *Importer) check(f Format, line *Line) candidate {
	r := &line.Record
	c := candidate{line: line.Number, code: clipped(r.Code), dated: !r.CreatedAt.IsZero(), visits: r.Visits, refusal: line.Refusal}
	if c.refusal != nil {
		return c
	}
	r.date(i.Rules.Now)
	owner, err := i.Owners.id(r.Owner)
	if err == nil {
		err = r.check()
	}
	if err == nil {
		c.link, err = i.Rules.Check(r.link(owner))
	}
	if invalid, ok := errors.AsType[*shortener.InvalidError](err); ok {
		err = &shortener.InvalidError{Field: f.column(invalid.Field), Reason: invalid.Reason}
	}
	c.link.URL = strings.Clone(c.link.URL)
	if c.link.Details != nil {
		c.link.Details.FirstURL = strings.Clone(c.link.Details.FirstURL)
	}
	c.refusal = err
	return c
}

// maxShown is the maximum number of bytes of a code that a candidate keeps, for the text of a refusal. A code that can be
// imported is shorter.
const maxShown = 256

func clipped(code string) string { return strings.Clone(code[:min(len(code), maxShown)]) }
