package visits

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// readTimeout is the time limit of one query whose result a person waits for. Tests may set another limit.
const readTimeout = 2 * time.Second

// query is forEach with the time limit of s. The end of ctx does not cancel the query, because pgx closes the connection of a
// cancelled query.
func (s Store) query(ctx context.Context, query string, args, columns []any, do func()) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limit)
	defer cancel()
	return forEach(ctx, s.read, query, args, columns, do)
}

// Range is the time from From to To. If From is zero, the range has no beginning. If To is zero, the range has no end.
type Range struct{ From, To time.Time }

// hours returns the hours [first, end) that the range touches.
func (r Range) hours() (first, end int64) {
	first, end = past, math.MaxInt32
	if !r.From.IsZero() {
		first = max(hourOf(r.From), past+1)
	}
	if !r.To.IsZero() {
		end = min(hourOf(r.To.Add(secondsPerHour*time.Second-1)), math.MaxInt32)
	}
	return first, end
}

// days returns the days [first, end) that the range touches.
func (r Range) days() (first, end int64) {
	first, end = r.hours()
	return first / hoursPerDay, (end + hoursPerDay - 1) / hoursPerDay
}

// Step is the duration that one point of a Series covers.
type Step int64

// The values of a Step, in hours.
const (
	Hour Step = 1
	Day  Step = hoursPerDay
	All  Step = 0 // the series has no points
)

// Series contains the numbers of visits of a link.
type Series struct {
	Total  Count
	Points []Point // in the order of time; an hour or a day without visits has no point
}

// Point contains the number of visits in the hour or the day (in UTC) that begins at At.
type Point struct {
	At time.Time
	Count
}

// Series returns the numbers of visits of a link in the hours that a range touches. If the range has no beginning, Total includes
// the visits that belong to no hour. The cost depends on the number of hours with visits.
func (s Store) Series(ctx context.Context, code string, r Range, step Step) (series Series, err error) {
	first, end := r.hours()
	var hour int64
	var n Count
	err = s.query(ctx, `SELECT hour, human, bot FROM visits WHERE code = $1 AND hour >= $2 AND hour < $3 ORDER BY hour`,
		[]any{code, first, end}, []any{&hour, &n.Human, &n.Bot}, func() {
			series.Total.Add(n)
			if step != All && hour != past {
				series.add(timeOf(hour-hour%int64(step)), n)
			}
		})
	if err != nil {
		return Series{}, fmt.Errorf("read the visits of a link: %w", err)
	}
	return series, nil
}

func (s *Series) add(at time.Time, n Count) {
	if last := len(s.Points) - 1; last >= 0 && s.Points[last].At.Equal(at) {
		s.Points[last].Add(n)
		return
	}
	s.Points = append(s.Points, Point{at, n})
}

// Values contains the numbers of visits of a link by the values of a facet.
type Values struct {
	Items []Value // the values with the most visits, in descending order
	Other int64   // number of visits with other values
}

// Value is a value of a facet and its number of visits.
type Value struct {
	Value string
	Count
}

// Facet returns up to limit values of a facet of a link, with their numbers of visits on the days that a range touches. It does
// not include visits without a value, such as visits without a referrer.
func (s Store) Facet(ctx context.Context, code string, f Facet, r Range, limit int) (values Values, err error) {
	first, end := r.days()
	var v Value
	err = s.query(ctx, `SELECT value, CAST(sum(human) AS bigint), CAST(sum(bot) AS bigint) FROM visit_facets
		WHERE code = $1 AND facet = $2 AND day >= $3 AND day < $4 GROUP BY value ORDER BY sum(human) + sum(bot) DESC, value`,
		[]any{code, f, first, end}, []any{&v.Value, &v.Human, &v.Bot}, func() {
			if v.Value != overflow && len(values.Items) < limit {
				values.Items = append(values.Items, v)
			} else {
				values.Other += v.Sum()
			}
		})
	if err != nil {
		return Values{}, fmt.Errorf("read the visits of a link by facet: %w", err)
	}
	return values, nil
}

// Link is the code of a link and its number of visits.
type Link struct {
	Code string
	Count
}

// Top returns the links with the most visits in the hours that a range touches, up to limit links in descending order. If owner
// is not 0, Top returns only the links of this owner. The cost depends on the number of links and hours with visits in the range.
func (s Store) Top(ctx context.Context, owner int64, r Range, limit int) (links []Link, err error) {
	first, end := r.hours()
	first = max(first, past+1)
	condition, args := `hour >= $1 AND hour < $2`, []any{first, end, limit}
	if owner != 0 {
		condition, args = condition+` AND owner = $4 AND owner <> 0`, append(args, owner)
	}
	if wide, err := s.isWide(ctx, first, end); err != nil {
		return nil, fmt.Errorf("read the hours with visits: %w", err)
	} else if wide {
		condition = strings.ReplaceAll(condition, "hour", "+hour") // with the operator +, SQLite does not use the indexes on hour
	}
	var l Link
	err = s.query(ctx, `SELECT code, CAST(sum(human) AS bigint), CAST(sum(bot) AS bigint) FROM visits
		WHERE `+condition+` GROUP BY code ORDER BY sum(human) + sum(bot) DESC, code LIMIT $3`,
		args, []any{&l.Code, &l.Human, &l.Bot}, func() { links = append(links, l) })
	if err != nil {
		return nil, fmt.Errorf("read the links with the most visits: %w", err)
	}
	return links, nil
}

// wideRange decides between an index and a scan of the table. With 1,000,000 rows in SQLite, the index takes 12 times as long for
// a row as the scan. So the scan is faster if the range has at least one twelfth of the recorded hours.
const wideRange = 12

// isWide reports whether the table should be scanned for the hours [first, end), because the scan is faster than an index. If the
// engine makes this choice itself, isWide returns false.
func (s Store) isWide(ctx context.Context, first, end int64) (wide bool, err error) {
	if s.engine.choosesScan {
		return false, nil
	}
	var oldest, newest int64
	err = s.query(ctx, `SELECT hour, (SELECT max(hour) FROM visits) FROM visits WHERE hour > $1 ORDER BY hour LIMIT 1`,
		[]any{past}, []any{&oldest, &newest}, func() {
			wide = wideRange*(min(end, newest+1)-max(first, oldest)) >= newest+1-oldest
		})
	return wide, err
}

// Totals returns the numbers of all visits of links since their creation, by code. A link without visits is absent. The cost
// depends on the number of hours with visits of each link. Totals has no time limit of its own, because it is for exports.
func (s Store) Totals(ctx context.Context, codes []string) (map[string]Count, error) {
	text, err := array(codes, func(code *string) []any { return []any{*code} })
	if err != nil {
		return nil, fmt.Errorf("read the visits of links: %w", err)
	}
	totals := make(map[string]Count, len(codes))
	var l Link
	err = forEach(ctx, s.read, `SELECT v.code, CAST(sum(v.human) AS bigint), CAST(sum(v.bot) AS bigint)
		FROM (SELECT DISTINCT value->>0 AS code FROM `+s.engine.elements+`) AS c JOIN visits AS v ON v.code = c.code GROUP BY v.code`,
		[]any{text}, []any{&l.Code, &l.Human, &l.Bot}, func() { totals[l.Code] = l.Count })
	if err != nil {
		return nil, fmt.Errorf("read the visits of links: %w", err)
	}
	return totals, nil
}
