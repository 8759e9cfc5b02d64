package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"keypool/shortener"
	"keypool/shortener/visits"
)

// Links is the part of a [shortener.Store] that an import needs.
type Links interface {
	Insert(ctx context.Context, links []shortener.Link) ([]shortener.Outcome, error)
	Lookup(ctx context.Context, code string) (shortener.Link, error)
}

// Importer imports files. Its fields must not change during an import.
type Importer struct {
	Links  Links
	Owners *Owners
	Visits Visits
	Rules  shortener.ImportRules
	Now    time.Time // time of the creation of links whose records have none
	DryRun bool      // whether to check the file and to import nothing

	// Refuse gets each refusal, in the order of the lines. An error ends the import.
	Refuse func(Refusal) error
	// Progress gets the figures after each batch.
	Progress func(Summary)
}

// Refusal is the reason why a record was not imported.
type Refusal struct {
	Line   int
	Code   string // "" if it is unknown
	Reason error
}

func (r Refusal) String() string {
	if r.Code == "" {
		return fmt.Sprintf("line %d: %v", r.Line, r.Reason)
	}
	return fmt.Sprintf("line %d, %.64q: %v", r.Line, r.Code, r.Reason)
}

// Summary counts the records of a file. In a dry run, Imported counts the records that an import would insert. It may count a
// code twice that occurs twice in the file.
type Summary struct {
	Imported int64
	Present  int64 // were in the database already
	Refused  int64
}

// Records returns the number of all records.
func (s Summary) Records() int64 { return s.Imported + s.Present + s.Refused }

const (
	// batchSize is how many records one transaction inserts. With it, the time of a commit is a small part of the time of
	// an import, and another writer of the database waits for some milliseconds.
	batchSize = 1000
	// readAhead is how many batches are read and checked while one is inserted.
	readAhead = 2
)

// candidate is a record after its check.
type candidate struct {
	line    int
	code    string
	link    shortener.Link
	dated   bool // whether the record has the time of its creation
	visits  Total
	refusal error
}

// Run imports a file. If it fails, some of the records are imported, and Run may be repeated with the same file. It
// returns when ctx ends, unless a read of the file blocks.
//
// Batches are inserted one after the other. Of two records with the same code, the first one wins.
func (i *Importer) Run(ctx context.Context, f Format, file io.Reader) (Summary, error) {
	i.Rules.Exported = f.exported()
	batches := make(chan []candidate, readAhead)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(batches)
		return i.read(ctx, f, file, batches)
	})
	var s Summary
	g.Go(func() error {
		for batch := range batches {
			if err := i.insert(ctx, f, batch, &s); err != nil {
				return err
			}
			i.Progress(s)
		}
		return nil
	})
	err := g.Wait()
	return s, err
}

// read reads and checks all records.
func (i *Importer) read(ctx context.Context, f Format, file io.Reader, batches chan<- []candidate) error {
	batch := make([]candidate, 0, batchSize)
	send := func() error {
		select {
		case batches <- batch:
			batch = make([]candidate, 0, batchSize)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for line, err := range Read(f, file) {
		if err != nil {
			return errors.Join(send(), fmt.Errorf("line %d: %w", line.Number, err))
		}
		if batch = append(batch, i.check(f, &line)); len(batch) == batchSize {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

// check returns the link that a line describes, or its refusal.
func (i *Importer) check(f Format, line *Line) candidate {
	r := &line.Record
	c := candidate{line: line.Number, code: r.Code, dated: !r.CreatedAt.IsZero(), visits: r.Visits, refusal: line.Refusal}
	if c.refusal != nil {
		return c
	}
	if !c.dated {
		r.CreatedAt = i.Now
	}
	owner, err := i.Owners.id(r.Owner)
	if err == nil {
		c.link, err = i.Rules.Check(r.link(owner))
	}
	if invalid, ok := errors.AsType[*shortener.InvalidError](err); ok {
		err = &shortener.InvalidError{Field: f.column(invalid.Field), Reason: invalid.Reason}
	}
	c.refusal = err
	return c
}

// insert inserts a batch and counts its records.
func (i *Importer) insert(ctx context.Context, f Format, batch []candidate, s *Summary) error {
	outcomes, err := i.outcomes(ctx, batch)
	if err == nil {
		err = i.resolve(ctx, f, batch, outcomes)
	}
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", batch[0].line, batch[len(batch)-1].line, err)
	}
	if err := i.addVisits(ctx, batch, outcomes); err != nil {
		return err
	}
	for j := range batch {
		c := &batch[j]
		switch {
		case c.refusal != nil:
			s.Refused++
			if err := i.Refuse(Refusal{c.line, c.code, c.refusal}); err != nil {
				return err
			}
		case outcomes[j] == shortener.Inserted:
			s.Imported++
		default:
			s.Present++
		}
	}
	return nil
}

// outcomes inserts the links of a batch and returns an outcome for each record. A refused record has the outcome 0.
// Without an insert, in a dry run, each other outcome is Conflict.
func (i *Importer) outcomes(ctx context.Context, batch []candidate) ([]shortener.Outcome, error) {
	outcomes := make([]shortener.Outcome, len(batch))
	var links []shortener.Link
	var at []int
	for j := range batch {
		if batch[j].refusal == nil {
			links, at = append(links, batch[j].link), append(at, j)
			outcomes[j] = shortener.Conflict
		}
	}
	if i.DryRun || len(links) == 0 {
		return outcomes, nil
	}
	inserted, err := i.Links.Insert(ctx, links)
	if err != nil {
		return nil, err
	}
	for k, j := range at {
		outcomes[j] = inserted[k]
	}
	return outcomes, nil
}

// lookups is how many links of a batch are looked up at the same time.
const lookups = 16

// resolve decides about the records with the outcome Conflict. Although the store reports a conflict, the database may have the
// same link from another source, or the file may not have the time of its creation.
func (i *Importer) resolve(ctx context.Context, f Format, batch []candidate, outcomes []shortener.Outcome) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lookups)
	for j, o := range outcomes {
		if o != shortener.Conflict {
			continue
		}
		g.Go(func() (err error) {
			outcomes[j], err = i.compare(ctx, f, &batch[j])
			return err
		})
	}
	return g.Wait()
}

// compare compares a record with the link in the database. It refuses the record if they differ.
func (i *Importer) compare(ctx context.Context, f Format, c *candidate) (shortener.Outcome, error) {
	stored, err := i.Links.Lookup(ctx, c.code)
	if errors.Is(err, shortener.ErrNotFound) && i.DryRun {
		return shortener.Inserted, nil
	}
	if err != nil {
		return 0, err
	}
	if !c.dated {
		c.link.CreatedAt = stored.CreatedAt
	}
	have, want := recordOf(&stored, i.Owners), recordOf(&c.link, i.Owners)
	if names := differences(&have, &want); len(names) > 0 {
		for k, name := range names {
			names[k] = f.column(name)
		}
		c.refusal = &takenError{column: f.column("code"), deleted: !have.DeletedAt.IsZero(), names: names}
	}
	return shortener.Present, nil
}

// addVisits adds the visits of the links that are in the database now. A link that was in the database before the import
// keeps the visits that it has, because they may contain those of the file.
func (i *Importer) addVisits(ctx context.Context, batch []candidate, outcomes []shortener.Outcome) error {
	var past []visits.Past
	var present []string
	for j := range batch {
		c := &batch[j]
		if c.refusal != nil || c.visits == (Total{}) {
			continue
		}
		past = append(past, visits.Past{Code: c.code, Owner: c.link.Owner(), Count: visits.Count(c.visits)})
		if outcomes[j] != shortener.Inserted {
			present = append(present, c.code)
		}
	}
	if i.DryRun || len(past) == 0 {
		return nil
	}
	if err := i.setPast(ctx, past, present); err != nil {
		return fmt.Errorf("add the visits of lines %d to %d: %w", batch[0].line, batch[len(batch)-1].line, err)
	}
	return nil
}

// setPast stores visits, apart from those of the present codes that have visits.
func (i *Importer) setPast(ctx context.Context, past []visits.Past, present []string) error {
	if len(present) > 0 {
		totals, err := i.Visits.Totals(ctx, present)
		if err != nil {
			return err
		}
		past = slices.DeleteFunc(past, func(p visits.Past) bool { return totals[p.Code] != visits.Count{} })
	}
	if len(past) == 0 {
		return nil
	}
	return i.Visits.SetPast(ctx, past)
}

// takenError is the refusal of a record whose code has another link in the database.
type takenError struct {
	column  string   // name of the field with the code
	deleted bool     // whether the other link is deleted
	names   []string // names of the fields that differ
}

func (e *takenError) Error() string {
	kind := "another link"
	if e.deleted {
		kind = "a deleted link"
	}
	return fmt.Sprintf("%s must be free, or have the same link already, and belongs to %s, which differs in %s", e.column, kind, strings.Join(e.names, ", "))
}
