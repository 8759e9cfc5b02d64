package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"keypool/shortener"
	"keypool/shortener/visits"
)

// Links is the part of a store of links that an import needs.
type Links interface {
	// InsertWith is like the Insert of a [shortener.Store], but executes one more statement in the same transaction.
	// Before the commit, it calls statementFor(outcomes). This function returns the additional statement, or "" for
	// none. If the function or the statement fails, InsertWith writes nothing. The links must not have idempotency keys.
	InsertWith(ctx context.Context, links []shortener.Link, statementFor func([]shortener.Outcome) (statement string, argument any, err error)) ([]shortener.Outcome, error)
	Lookup(ctx context.Context, code string) (shortener.Link, error)
}

// VisitsBeforeImport stores the visits that links had before their import. [visits.Store] implements it.
type VisitsBeforeImport interface {
	BeforeImportStatement(links []visits.BeforeImport) (statement string, argument any, err error)
}

// insert inserts a part and counts its records.
func (i *Importer) insert(ctx context.Context, f Format, part []candidate, s *Summary) error {
	outcomes, err := i.outcomes(ctx, part)
	if err == nil {
		err = i.resolve(ctx, f, part, outcomes)
	}
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", part[0].line, part[len(part)-1].line, err)
	}
	for j := range part {
		c := &part[j]
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

// outcomes inserts the links of a part and their visits, and returns an outcome for each record. The outcome of a
// refused record is 0. In a dry run, outcomes inserts nothing and returns Conflict for each record that is not refused,
// so that resolve looks up the code of the record.
func (i *Importer) outcomes(ctx context.Context, part []candidate) ([]shortener.Outcome, error) {
	outcomes := make([]shortener.Outcome, len(part))
	var links []shortener.Link
	var at []int
	for j := range part {
		if part[j].refusal == nil {
			links, at = append(links, part[j].link), append(at, j)
			outcomes[j] = shortener.Conflict
		}
	}
	if i.DryRun || len(links) == 0 {
		return outcomes, nil
	}
	inserted, err := i.Links.InsertWith(ctx, links, func(inserted []shortener.Outcome) (statement string, argument any, err error) {
		return i.pastVisits(part, at, inserted)
	})
	if err != nil {
		return nil, err
	}
	for k, j := range at {
		outcomes[j] = inserted[k]
	}
	return outcomes, nil
}

// pastVisits returns the statement that stores the visits of the inserted links. The k-th outcome belongs to the record
// part[at[k]]. If a link was already in the database, pastVisits omits the visits of this link, because the database may
// already include the visits of the file.
func (i *Importer) pastVisits(part []candidate, at []int, outcomes []shortener.Outcome) (statement string, argument any, err error) {
	var past []visits.BeforeImport
	for k, j := range at {
		if c := &part[j]; outcomes[k] == shortener.Inserted && c.visits != (Total{}) {
			past = append(past, visits.BeforeImport{Code: c.code, Owner: c.link.Owner(), Count: visits.Count(c.visits)})
		}
	}
	if len(past) == 0 {
		return "", nil, nil
	}
	return i.Visits.BeforeImportStatement(past)
}

// lookups is the maximum number of links that resolve looks up at the same time.
const lookups = 16

// resolve compares each record whose outcome is Conflict with the stored link of its code. In spite of the conflict,
// the stored link may be the link that the record describes. For example, the two may differ only in Source, or the
// record may lack the creation time.
func (i *Importer) resolve(ctx context.Context, f Format, part []candidate, outcomes []shortener.Outcome) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lookups)
	for j, o := range outcomes {
		if o != shortener.Conflict {
			continue
		}
		g.Go(func() (err error) {
			outcomes[j], err = i.compare(ctx, f, &part[j])
			return err
		})
	}
	return g.Wait()
}

// compare compares a record with the stored link of its code. If the two differ, compare sets the refusal of the record. It
// returns Present in both cases. If there is no stored link in a dry run, it returns Inserted.
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

// takenError is the refusal of a record whose code belongs to another link in the database.
type takenError struct {
	column  string   // name of the field with the code
	deleted bool     // whether the link in the database is deleted
	names   []string // names of the fields that differ
}

func (e *takenError) Error() string {
	kind := "another link"
	if e.deleted {
		kind = "a deleted link"
	}
	return fmt.Sprintf("%s must be a code that no other link has, but it belongs to %s in the database, which differs in %s", e.column, kind, strings.Join(e.names, ", "))
}
