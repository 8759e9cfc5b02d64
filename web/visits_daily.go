package web

import (
	"context"
	"time"

	"keypool/shortener/visits"
	"keypool/web/ui"
)

var _ ui.Visits = (*Visits)(nil)

// daily returns v as a [ui.Visits]. If v is nil, it returns a nil interface, because an interface that holds a nil pointer is
// not nil.
func (v *Visits) daily() ui.Visits {
	if v == nil {
		return nil
	}
	return v
}

// dailyTimeout limits the time for which the page of a link waits for Daily.
const dailyTimeout = 2 * time.Second

// Daily implements [ui.Visits]. The series covers at most the given number of days, but the total includes all visits. So
// Daily reads the total with a separate query, in which the database adds up the visits.
func (v *Visits) Daily(ctx context.Context, code string, days int) (ui.Series, error) {
	// The end of the request does not cancel the queries, because pgx closes the connection of a cancelled query.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dailyTimeout)
	defer cancel()
	asOf := v.Counter.AsOf() // read before the queries, so that the queries include all visits until this time
	now := time.Now().UTC()
	today := now.Truncate(24 * time.Hour)
	for days > 0 && v.Keep > 0 && today.AddDate(0, 0, 1-days).Before(now.Add(-v.Keep)) {
		days-- // the database no longer has all counts of the first day
	}
	read, err := v.Store.Series(ctx, code, visits.Range{From: today.AddDate(0, 0, 1-days)}, visits.Day)
	if err != nil {
		return ui.Series{}, err
	}
	totals, err := v.Store.Totals(ctx, []string{code})
	if err != nil {
		return ui.Series{}, err
	}
	byDay := make(map[time.Time]visits.Count, len(read.Points))
	for _, p := range read.Points {
		byDay[p.At] = p.Count
	}
	series := ui.Series{AsOf: asOf, Total: ui.Day{Human: totals[code].Human, Bot: totals[code].Bot}}
	for i := range days {
		at := today.AddDate(0, 0, i+1-days)
		series.Days = append(series.Days, ui.Day{At: at, Human: byDay[at].Human, Bot: byDay[at].Bot})
	}
	return series, nil
}
