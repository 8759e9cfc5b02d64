package loadtest

import (
	"context"
	"errors"
	"time"
)

// Steady makes links on the service at a constant rate, first for as long as warmUp, and
// then as s says, which the figures are of. The findings are of all links that were
// acknowledged, and it is for the caller to judge both.
func Steady(ctx context.Context, service string, warmUp time.Duration, s Schedule) (v Verdict, err error) {
	client := NewClient(service, 0)
	defer client.Close()
	journal, err := CreateJournal("")
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	load := NewLoad(client, journal, 0)
	if err := load.Run(ctx, Schedule{Rate: s.Rate, Duration: warmUp}, NewRecorder()); err != nil {
		return v, err
	}
	recorder := NewRecorder()
	if err := load.Run(ctx, s, recorder); err != nil {
		return v, err
	}
	checker := Checker{Client: client}
	findings, err := checker.Check(ctx, journal.Entries())
	return Verdict{Figures: recorder.Figures(), Findings: findings}, err
}
