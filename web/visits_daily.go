package web

import (
	"context"
	"time"

	"keypool/shortener/visits"
	"keypool/web/ui"
)

var _ ui.Visits = (*Visits)(nil)

// daily returns v for the pages for links. It is nil if v is nil, because an interface that holds a nil pointer is not nil.
func (v *Visits) daily() ui.Visits {
	if v == nil {
		return nil
	}
	return v
}

// Daily implements [ui.Visits].
func (v *Visits) Daily(ctx context.Context, code string, days int) (ui.Series, error) {
	asOf := v.Counter.AsOf() // before the query, which then includes all visits until this time
	read, err := v.Store.Series(ctx, code, visits.Range{}, visits.Day)
	if err != nil {
		return ui.Series{}, err
	}
	byDay := make(map[time.Time]visits.Count, len(read.Points))
	for _, p := range read.Points {
		byDay[p.At] = p.Count
	}
	series := ui.Series{AsOf: asOf, Total: ui.Day{Human: read.Total.Human, Bot: read.Total.Bot}}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for i := range days {
		at := today.AddDate(0, 0, i+1-days)
		series.Days = append(series.Days, ui.Day{At: at, Human: byDay[at].Human, Bot: byDay[at].Bot})
	}
	return series, nil
}
