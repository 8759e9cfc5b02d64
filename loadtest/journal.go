package loadtest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// State is the state of a request as its client observes it.
type State string

// The states. An entry is Intended until its outcome is known. The comments below describe a creation; see
// [Visits.Visit] for a request that follows a link.
const (
	Intended     State = "intended"
	Acknowledged State = "acknowledged" // status 201: the service promised the link
	Refused      State = "refused"      // status 4xx or 5xx
	Unknown      State = "unknown"      // the request may have been sent, and got no valid answer; the link may exist
	Unsent       State = "unsent"       // no part of the request was sent: no connection, or too many requests in flight
)

// Outcome is the result of one creation as its client observed it.
type Outcome struct {
	State  State
	Code   string // the code of an acknowledged creation; "" if the answer contained no code
	Detail string // why the creation is not acknowledged; "" for an acknowledged creation

	RetryAfter string // the header Retry-After of a refusal
}

// Entry is the record of one creation.
type Entry struct {
	N   int       // number of the creation, from 0
	URL string    // the target of the link; no other creation uses this URL
	At  time.Time // when the intent was recorded
	Outcome
}

// Journal records creations in memory. It may be used concurrently.
type Journal struct {
	prefix string // prefix of all URLs of this journal; no other journal has it

	mu      sync.Mutex
	entries []Entry
}

// NewJournal makes an empty journal.
func NewJournal() *Journal {
	// The path identifies the journal and the creation, so the target of a wrong redirect shows
	// the creation to which it belongs. The query contains characters that a service must not
	// change.
	return &Journal{prefix: "https://loadtest.example/" + rand.Text() + "/"}
}

// Intend begins an entry. The request may be sent only after Intend has returned.
func (j *Journal) Intend() Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.entries)
	e := Entry{
		N:       n,
		URL:     j.prefix + strconv.Itoa(n) + "?b=%2f&a=Z",
		At:      time.Now(),
		Outcome: Outcome{State: Intended},
	}
	j.entries = append(j.entries, e)
	return e
}

// Settle records the outcome of entry n. It panics if the entry already has an outcome.
func (j *Journal) Settle(n int, o Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if was := j.entries[n].State; was != Intended {
		panic(fmt.Sprintf("creation %d is already settled as %s", n, was))
	}
	j.entries[n].Outcome = o
}

// Entries returns a copy of the entries so far, in the order of N.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}
