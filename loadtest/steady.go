package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Steady makes links on the service at a constant rate, first for as long as warmUp, and
// then as s says, which the figures are of. Every one of them has to be acknowledged and to
// lead where it should: else there are no figures but an error. The entries are those of
// the warm-up too.
func Steady(ctx context.Context, service string, warmUp time.Duration, s Schedule) (f Figures, entries []Entry, err error) {
	client := NewClient(service, 0)
	defer client.Close()
	journal, err := CreateJournal("")
	if err != nil {
		return f, nil, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	load := NewLoad(client, journal, 0)
	if err := load.Run(ctx, Schedule{Rate: s.Rate, Duration: warmUp}, NewRecorder()); err != nil {
		return f, nil, err
	}
	recorder := NewRecorder()
	if err := load.Run(ctx, s, recorder); err != nil {
		return f, nil, err
	}
	entries = journal.Entries()
	f = recorder.Figures()
	if f.Failed() > 0 || f.Acknowledged == 0 {
		return Figures{}, entries, fmt.Errorf("the load got what it should not: %+v", f)
	}
	checker := Checker{Client: client}
	findings, err := checker.Check(ctx, entries)
	if err == nil && findings.Broken() > 0 {
		err = fmt.Errorf("links are not as they were acknowledged: %+v", findings)
	}
	return f, entries, err
}
