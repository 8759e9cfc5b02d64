package plan

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"

	"keypool/internal/human"
	"keypool/loadtest/report"
)

// WriteText writes the plan for a terminal.
func (p *Plan) WriteText(w io.Writer) error { return p.document().WriteText(w) }

// HTML writes the plan as a page with charts.
func (p *Plan) HTML(w io.Writer) error {
	d := p.document()
	p.addCharts(d.Sections)
	return d.HTML(w)
}

// The indexes of the sections of the document, except the last section, which lists the constants.
const (
	sectionSpaces = iota
	sectionYears
	sectionPool
	sectionServers
	sectionDatabase
	sectionRedirects
)

// document returns the plan as tables.
func (p *Plan) document() *report.Document {
	in := p.Input
	return &report.Document{
		Title: "Keypool capacity plan",
		Lead: fmt.Sprintf("%s and %s per second on %s for %s.", Count(report.Number(in.Creations), "creation"), Count(report.Number(in.Redirects), "redirect"),
			Count(humanize.Comma(in.Servers), "server"), Count(strconv.Itoa(in.Years), "year")),
		Sections: []report.Section{
			sectionSpaces: p.spaces(), sectionYears: p.years(), sectionPool: p.pool(), sectionServers: p.servers(),
			sectionDatabase: p.database(), sectionRedirects: p.redirects(), {Title: "Constants", Tables: []report.Table{ConstantTable(p.Constants)}},
		},
	}
}

func (p *Plan) spaces() report.Section {
	t := report.Table{Columns: []string{"characters", "codes", "key database", "the same in base64url", "full after"}}
	for _, s := range p.Spaces {
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(s.Length), humanize.Comma(s.Keys), size(float64(s.Bytes)), size(float64(s.Bytes64)), lasts(s.FullAfter),
		})
	}
	first := p.Spaces[0]
	return report.Section{
		Title: "Codes",
		Text: fmt.Sprintf("A key database with every code of %[1]d characters needs %[1]d x 62^%[1]d bytes = %[2]s, and %[1]d x 64^%[1]d bytes = %[3]s with the alphabet of base64url. "+
			"Keypool needs no such database, because its ledger records ranges of numbers. When all codes of one length are in use, new codes are one character longer.", first.Length, size(float64(first.Bytes)), size(float64(first.Bytes64))),
		Tables: []report.Table{t},
	}
}

func (p *Plan) years() report.Section {
	t := report.Table{Columns: []string{"year", "links", "characters", "space in use", "attempts of the random fallback", "table", "indexes"}}
	for _, y := range p.Years {
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(y.Year), humanize.Comma(y.Links), strconv.Itoa(y.Length), percent(y.Used), attempts(y.Attempts), size(y.TableBytes), size(y.IndexBytes),
		})
	}
	return report.Section{
		Title:  "End of each year",
		Text:   "If a fraction f of the space is in use, a random code needs 1/(1-f) attempts on average.",
		Tables: []report.Table{t},
	}
}

func (p *Plan) pool() report.Section {
	pool := p.Pool
	return report.Section{Title: "Pool", Tables: []report.Table{report.Facts(
		"capacity", keys(float64(pool.Capacity))+", "+size(pool.RedisBytes)+" of Redis",
		"runway of the full pool", lasts(pool.Runway),
		"signal restart if no key arrives", "below "+keys(pool.RestartBelow)+", "+lasts(pool.RestartRunway)+" before the pool is empty",
		"signal page if no key arrives", "below "+keys(pool.PageBelow)+", "+lasts(pool.PageRunway)+" before the pool is empty",
		"refill of the empty pool", human.Duration(pool.RefillDuration),
		"capacity for the signal page "+human.Duration(p.Input.Night)+" before the pool is empty", capacity(pool.NightCapacity)+", "+size(pool.NightRedis)+" of Redis",
	)}}
}

func (p *Plan) servers() report.Section {
	local, outage := p.Local, p.Outage
	atLeast := humanize.Comma(p.Database.ServersAtLeast)
	if p.Database.ServersAtLeast > p.Input.Servers {
		atLeast += ", more than this plan has"
	}
	return report.Section{Title: "Servers and an outage of " + human.Duration(outage.Seconds), Tables: []report.Table{report.Facts(
		"servers at least, with two cores each", atLeast,
		"batch of a server", keys(float64(local.Batch)),
		"unused keys lost by a crash of a server, at most", keys(float64(local.Keys)),
		"local keys of all servers, at most", keys(float64(local.AllKeys)),
		"local keys last without Redis, at least", human.Duration(local.Bridge),
		"creations during the outage", report.Number(math.Round(outage.Creations)),
		"creations by the fallback if Redis is down, at most", percent(outage.FallbackRatio),
		"KGS_BATCH_MIN with which local keys last for an outage of Redis", withMax(outage.Batch),
		"capacity with which an outage of the worker causes no signal page", capacity(outage.Capacity),
	)}}
}

func (p *Plan) database() report.Section {
	d := p.Database
	return report.Section{Title: "Database after " + Count(strconv.Itoa(p.Input.Years), "year"), Tables: []report.Table{report.Facts(
		"links", humanize.Comma(d.Links),
		"table in PostgreSQL", size(d.TableBytes),
		"indexes in PostgreSQL", size(d.IndexBytes),
		"log of PostgreSQL (WAL)", size(d.LogBytes)+"/s",
		"the same links in SQLite", size(d.SQLiteBytes),
		"nodes at least", humanize.Comma(d.Nodes),
		"shards", humanize.Comma(d.Shards),
	)}}
}

func (p *Plan) redirects() report.Section {
	r := p.Redirects
	return report.Section{
		Title: "Redirects",
		Text: fmt.Sprintf("The share of the requests for the i-th most popular link is proportional to i^-s with s = %g. A cache of c links has the hit rate H(c)/H(n), "+
			"where n is the number of links and H(k) is the sum of i^-s for i from 1 to k (L. Breslau et al., INFOCOM 1999). "+
			"A server uses a link in its cache for %g s. The next request after that looks the link up in the database again. If a server gets l requests per second for a link, "+
			"the link causes l/(1+%[2]gl) look-ups per second (J. Jung et al., INFOCOM 2003).", p.Input.Zipf, freshness),
		Tables: []report.Table{report.Facts(
			"hit rate of the cache of a server", percent(r.HitRatio),
			"look-ups in the database", report.Number(r.Lookups)+"/s",
			"bandwidth of the answers", bits(r.Bandwidth),
			"bandwidth of the answers of one server", bits(r.OneServer),
		)},
	}
}

// ConstantTable returns a table of constants.
func ConstantTable(all []Constant) report.Table {
	t := report.Table{Columns: []string{"constant", "value", "source"}}
	for _, c := range all {
		t.Rows = append(t.Rows, []string{c.Name, report.Number(c.Value), c.Source})
	}
	return t
}

// Count returns a formatted number with a noun. If the number is not 1, the noun is in the plural.
func Count(number, noun string) string {
	if number == "1" {
		return number + " " + noun
	}
	return number + " " + noun + "s"
}

func keys(n float64) string     { return Count(report.Number(math.Round(n)), "key") }
func size(bytes float64) string { return humanize.Bytes(uint64(bytes)) }
func bits(rate float64) string  { return humanize.SIWithDigits(rate, 1, "bit/s") }
func percent(v float64) string  { return strconv.FormatFloat(100*v, 'g', 3, 64) + " %" }
func attempts(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) }

// lasts formats how long a pool or a space lasts. A time from 2 to 100 hours is in hours, because operators compare it with
// the hours of a night. A time of two years or more is in years. Other times have the format of [human.Duration].
func lasts(seconds float64) string {
	switch hours, years := seconds/3600, seconds/year; {
	case hours >= 2 && hours < 100:
		return strconv.FormatFloat(hours, 'f', 1, 64) + " h"
	case years >= 1000: // report.Number rounds a number of this size to a whole number
		return report.Number(years) + " years"
	case years >= 2:
		return report.Number(math.Round(10*years)/10) + " years"
	}
	return human.Duration(seconds)
}

// withMax formats a value of KGS_BATCH_MIN. If a valid value is above the default of KGS_BATCH_MAX, the text says that
// KGS_BATCH_MAX must be raised too, because a server refuses a KGS_BATCH_MAX below KGS_BATCH_MIN.
func withMax(batch int64) string {
	if batch > batchMax && batch <= batchLimit {
		return within(batch, batchLimit) + ", and the same KGS_BATCH_MAX"
	}
	return within(batch, batchLimit)
}

// capacity formats a value of KGS_POOL_CAPACITY. If the value is the minimum, the text says so, because the load may
// need less.
func capacity(n int64) string {
	if n == capacityMin {
		return keys(float64(n)) + ", the minimum of KGS_POOL_CAPACITY"
	}
	return within(n, capacityLimit)
}

// within formats n keys. The parameter limit is the greatest value of a setting. If n is more than limit, the text
// says so.
func within(n, limit int64) string {
	if n > limit {
		return keys(float64(n)) + ", more than the limit of " + humanize.Comma(limit)
	}
	return keys(float64(n))
}
