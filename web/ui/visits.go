package ui

import (
	"context"
	"fmt"
	"time"

	"keypool/shortener/token"
)

// Visits reads the counts of visits.
type Visits interface {
	// Daily returns the visits of a link on each day (UTC) of a period. The period ends today, and its length is the
	// parameter days. The oldest day is first. Days without a visit are included. The first days are left out if their
	// counts are no longer stored. The caller has checked that the person may see the link. Daily limits its own time.
	Daily(ctx context.Context, code string, days int) (Series, error)
}

// Series is the visits of a link by day.
type Series struct {
	Days  []Day
	Total Day       // all visits since the link was created; At is zero
	AsOf  time.Time // visits until this time are counted
}

// Day is the number of visits on the day that begins at At.
type Day struct {
	At         time.Time
	Human, Bot int64
}

// chartDays is the number of days in the chart.
const chartDays = 30

// chart is a series as a drawing.
type chart struct {
	Off        bool // visits are not counted
	Hidden     bool // the person may not read visits
	Failed     bool // the series could not be read
	Days       []Day
	Bars       []bar
	Human, Bot int64 // visits on all Days together
	Total      Day   // visits since the link was created
	Top        int64 // number of visits to which the height of the chart corresponds
	AsOf       time.Time
}

// Size of a chart in units of the drawing.
const (
	barWidth    = 16
	barGap      = 4
	chartHeight = 120
)

// bar is the drawing of the visits of one day. X and the fields that end in Y are positions from the
// upper left corner of the chart. The fields that end in Height are heights.
type bar struct {
	X, Width            int
	HumanY, HumanHeight int
	BotY, BotHeight     int
	Day                 Day
}

// Width returns the width of the chart.
func (c *chart) Width() int { return len(c.Bars)*(barWidth+barGap) - barGap }

// Height returns the height of the chart.
func (*chart) Height() int { return chartHeight }

// Period says in words which days the chart shows.
func (c *chart) Period() string {
	switch n := len(c.Days); n {
	case 0:
		return ""
	case 1:
		return "today"
	default:
		return fmt.Sprintf("in the last %d days", n)
	}
}

// First returns the first day of the chart.
func (c *chart) First() time.Time { return c.Days[0].At }

// Last returns the last day of the chart.
func (c *chart) Last() time.Time { return c.Days[len(c.Days)-1].At }

// chartOf returns the chart of a link. As in the API, visits need the scope read.
func (u *UI) chartOf(x *exchange, code string) *chart {
	if u.Visits == nil {
		return &chart{Off: true}
	}
	if !x.person.has(token.ScopeRead) {
		return &chart{Hidden: true}
	}
	s, err := u.daily(x, code)
	if err != nil {
		u.warn(x, "read the visits of the link", err)
		return &chart{Failed: true}
	}
	return draw(s)
}

// daily waits for a slot of the person (see package slots), and then reads the visits of a link.
func (u *UI) daily(x *exchange, code string) (Series, error) {
	end, err := u.Service.BeginRead(x.r.Context(), x.person.actor())
	if err != nil {
		return Series{}, err
	}
	defer end()
	return u.Visits.Daily(x.r.Context(), code, chartDays)
}

// draw returns the chart of a series. In each bar, the visits of bots are above the visits of people.
func draw(s Series) *chart {
	c := &chart{Days: s.Days, Total: s.Total, AsOf: s.AsOf}
	for _, d := range s.Days {
		c.Human, c.Bot = c.Human+d.Human, c.Bot+d.Bot
		c.Top = max(c.Top, d.Human+d.Bot)
	}
	for i, d := range s.Days {
		b := bar{X: i * (barWidth + barGap), Width: barWidth, Day: d}
		b.HumanHeight = c.height(d.Human)
		b.BotHeight = c.height(d.Human+d.Bot) - b.HumanHeight
		b.HumanY = chartHeight - b.HumanHeight
		b.BotY = b.HumanY - b.BotHeight
		c.Bars = append(c.Bars, b)
	}
	return c
}

// height returns the height of a number of visits. A number above 0 is at least one unit high.
func (c *chart) height(visits int64) int {
	if visits <= 0 {
		return 0
	}
	return max(1, int(float64(visits)/float64(c.Top)*chartHeight))
}
