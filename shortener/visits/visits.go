// Package visits counts the visits of links.
//
// Vocabulary:
//
//   - A visit is a GET request for a short URL that was answered with a redirect to the URL of the link.
//   - The class of a visit is human or bot. A prefetch counts as a bot.
//   - A facet is a property by which visits are counted: the host of the referrer, the country or the
//     device.
//   - A flush moves counts from the memory of a server to the database. It consists of parts, each of which is
//     one transaction.
//   - A writer is the name under which a server flushes. The server registers the writer in the database.
//
// Invariants:
//
//   - A visit counts at most once. Each part has a number, which the transaction of the part stores for the writer. If the
//     reply of the database is lost, the server repeats the part. If the number is already stored, the repetition has no
//     effect. A part of an unknown writer has no effect either, because the database may have forgotten the number.
//   - [Counter.Count] never waits for the database, and the memory for the counts has a limit.
//   - The database contains no address and no user agent of a visitor, and no path of a referrer.
//
// [Counter.Count] counts a visit in memory. [Counter.Run] flushes the counts with [Store.Apply]. Other methods
// of [Store] read the counts.
package visits

import "time"

// Count is a number of visits by class.
type Count struct{ Human, Bot int64 }

// Add adds other to c.
func (c *Count) Add(other Count) {
	c.Human += other.Human
	c.Bot += other.Bot
}

// Sum returns the number of visits of both classes.
func (c Count) Sum() int64 { return c.Human + c.Bot }

// Visit contains what [Counter.Count] needs to know about one visit.
type Visit struct {
	Code     string
	Owner    int64  // owner of the link, 0 for an anonymous link
	Agent    string // User-Agent header
	Prefetch bool   // whether a browser loads the URL before a person opens it
	Referrer string // Referer header
	Country  string // two letters, from a trusted proxy; "" if it is unknown
}

// Facet is a property by which visits are counted. Its values are stored in the database.
type Facet uint8

// The facets.
const (
	Referrers Facet = iota + 1 // hosts of the referrers
	Countries                  // country codes of ISO 3166-1, in capital letters
	Devices                    // desktop, phone, tablet or other
)

// MaxValues is the maximum number of values of a facet that are stored for a link and a day. All further
// values share one count.
const MaxValues = 100

// Hours and days are counted from 1970-01-01 00:00 UTC.
const (
	secondsPerHour = 3600
	hoursPerDay    = 24
	// past is the hour in the row that counts the visits without an hour. These are the visits before the
	// import of a link, and the visits that are older than the retention time.
	past = 0
)

func hourOf(t time.Time) int64    { return t.Unix() / secondsPerHour }
func timeOf(hour int64) time.Time { return time.Unix(hour*secondsPerHour, 0).UTC() }
