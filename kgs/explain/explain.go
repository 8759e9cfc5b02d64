// Package explain reports where a code came from and what happened to it, as far as the database records
// it.
//
// Invariant: each statement of an [Explanation] follows from the [Evidence]. NotRecorded lists what the database does not
// record. The package never guesses.
//
// Packages kgs and keysource define the vocabulary.
package explain

import (
	"time"

	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/keysource"
	"keypool/kgs/ledger"
	"keypool/kgs/pgpool"
)

// Evidence is what the database records about a code.
type Evidence struct {
	Code    string
	Space   *codespace.Space // code space of the ledger
	Ledger  ledger.Snapshot
	Link    *Link              // nil if no link has the code
	Machine *keysource.Machine // the machine id of the code, if the code can be a Snowflake number
	Pool    *pgpool.Record     // the row of the code in a PostgreSQL pool, if there is one
}

// Link is the link of a code. The zero time stands for "never".
type Link struct {
	URL       string    `json:"url"`
	State     string    `json:"state"` // live, expired or deleted
	Source    string    `json:"source"`
	Owner     string    `json:"owner,omitempty"` // id of a token; empty for an anonymous link
	Editable  bool      `json:"editable"`
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	DeletedAt time.Time `json:"deleted_at,omitzero"`
}

// Status is what happened to a code.
type Status string

// The values of a Status.
const (
	Linked    Status = "linked"     // a link has the code
	Reserved  Status = "reserved"   // the code is a key that waits for a link
	Abandoned Status = "abandoned"  // no server will hand out the code
	NotIssued Status = "not issued" // no key source has issued the code
	Unknown   Status = "unknown"    // the database does not record what happened to the code
)

// Explanation is the result of [Explain]. Members that do not apply to the code are empty or nil.
type Explanation struct {
	Code      string  `json:"code"`
	Status    Status  `json:"status"`
	Reason    string  `json:"reason"`               // sentences that give the reason for the status
	KeySource string  `json:"key_source,omitempty"` // source of the link, such as a key source or "alias"
	Origin    string  `json:"origin,omitempty"`     // what the code is, such as a number or a random string
	Link      *Link   `json:"link,omitempty"`
	Number    *Number `json:"number,omitempty"`
	Epoch     *int64  `json:"epoch,omitempty"` // epoch in which the number was first reserved; 0 if no epoch had begun at that time
	Range     *Range  `json:"range,omitempty"`

	Snowflake *Snowflake     `json:"snowflake,omitempty"`
	Pool      *pgpool.Record `json:"postgres_pool,omitempty"`

	NotRecorded []string `json:"not_recorded"` // one line for each fact that the database does not record
}

// Number is the number of a code among the codes of the same length.
type Number struct {
	Length  int   `json:"length"`
	Number  int64 `json:"number"`
	Size    int64 `json:"size"`              // number of codes of this length
	Counter int64 `json:"counter,omitempty"` // lowest number of this length that the ledger has not reserved
}

// Range is a row of the ledger that contains the number.
type Range struct {
	ID     int64        `json:"id"`
	Lo     int64        `json:"lo"`
	Hi     int64        `json:"hi"` // first number after the range
	State  ledger.State `json:"state"`
	Holder string       `json:"holder,omitempty"` // the server or worker; empty if no process holds the range, and for the range of a lease
	Reason string       `json:"reason,omitempty"` // why the range was abandoned
	Epoch  int64        `json:"epoch"`
}

// Snowflake holds the fields of a Snowflake number.
type Snowflake struct {
	keysource.SnowflakeFields
	Holder string    `json:"machine_holder,omitempty"` // the process that acquired the machine id last; empty if it gave the id back
	Until  time.Time `json:"machine_until,omitzero"`   // end of the last promise for the machine id; zero if the id was never used
}

// Explain explains a code. The code must be valid as the code of a link.
func Explain(e Evidence) Explanation {
	x := Explanation{Code: e.Code, Link: e.Link, Pool: e.Pool, NotRecorded: []string{}}
	if e.Link != nil {
		x.linked(e)
	} else {
		x.unlinked(e)
	}
	return x
}

func (x *Explanation) lacks(line string) { x.NotRecorded = append(x.NotRecorded, line) }

// linked explains the code of a link by its key source.
func (x *Explanation) linked(e Evidence) {
	x.Status, x.KeySource, x.Reason = Linked, e.Link.Source, "A link has the code, so no other link can get it."
	switch e.Link.Source {
	case kgs.SourcePool, kgs.SourceLedger, kgs.SourceKGS:
		x.ofLedger(e)
		return
	case kgs.SourcePostgresPool:
		x.Origin = "a random string that waited in the table available_keys"
	case kgs.SourceRedisIncr:
		x.counted(e.Code, "the value of a counter in Redis, in base 62")
	case kgs.SourceTicket:
		x.ticket(e.Code)
	case kgs.SourceSnowflake:
		x.Origin = "a time, a machine id and a sequence number"
		x.snowflake(e)
	case kgs.SourceHash:
		x.hash(e)
	case kgs.SourceUUID:
		x.Origin = "128 random bits in base 62"
	case kgs.SourceRandom:
		x.Origin = "a random string, from the fallback or from KEY_SOURCE=random"
		x.lacks("the number of attempts that the creation needed")
	default:
		x.Origin = chosen[e.Link.Source]
	}
	x.lacks("the server that created the link")
}

// chosen maps each link source that is not a key source to its explanation.
//
//nolint:gochecknoglobals // immutable
var chosen = map[string]string{
	"alias":  "the user chose the code",
	"import": "an import brought the code",
	"former": "a key of a ledger that was replaced, so its number is unknown",
}

// counted explains a code that is a number in base 62. It returns the number, or -1 if the code is
// not such a number.
func (x *Explanation) counted(code, origin string) (n int64) {
	x.Origin = origin
	length, n, err := codespace.Plain().Number(code)
	if err != nil {
		x.lacks("the number, because the code is not a number in base 62 of 3 to 10 digits")
		return -1
	}
	x.Number = &Number{Length: length, Number: n, Size: codespace.Size(length)}
	return n
}

func (x *Explanation) ticket(code string) {
	n := x.counted(code, "the value of a counter in base 62")
	switch {
	case n < 0:
	case keysource.Parity(n%2) == keysource.Odd:
		x.Origin += "; the number is odd, so the first ticket database issued it"
	default:
		x.Origin += "; the number is even, so the second ticket database issued it"
	}
}

// hash finds the attempt whose digest gives the code. It finds no attempt if the link is editable and had another URL
// at its creation.
func (x *Explanation) hash(e Evidence) {
	x.Origin = "6 characters of a hash of the URL"
	for _, algorithm := range []string{"sha256", "md5"} {
		if attempt, ok := (keysource.Hash{Algorithm: algorithm}).Attempt(e.Link.URL, e.Code); ok {
			x.Origin = "the first 6 characters of the " + algorithm + " of the URL in base64url"
			if attempt > 0 {
				x.Origin += ", with the sequence number " + decimal(int64(attempt)) + " appended after that many conflicts"
			}
			return
		}
	}
	x.lacks("the URL that was hashed: the present URL does not give the code")
}
