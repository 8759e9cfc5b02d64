package loadtest

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// State is the state of a request as its client observes it.
type State string

// The states. An entry is Intended until its outcome is known. In a journal that was read from
// a file, Intended means the same as Unknown.
const (
	Intended     State = "intended"
	Acknowledged State = "acknowledged" // status 201: the service promised the link
	Refused      State = "refused"      // 4xx or 5xx
	Unknown      State = "unknown"      // sent at least in part, without a valid answer; the link may exist
	Unsent       State = "unsent"       // nothing was sent: no connection, or too many requests in flight
)

// Outcome is the result of one creation as its client observed it.
type Outcome struct {
	State  State
	Code   string // the code of an acknowledged creation; "" if the answer contained no code
	Detail string // why the creation is not acknowledged; "" if it is

	RetryAfter string // header of a refused creation; not written to the file of a journal
}

// Entry is the record of one creation.
type Entry struct {
	N   int       // number of the creation, from 0
	URL string    // no other creation uses it
	At  time.Time // when the intent was recorded
	Outcome
}

// Journal records creations in memory and, line by line, in a file. Intend and Settle return after the
// kernel has received the line, so a crash of this process loses no line. A crash of the machine may lose the
// lines of the last seconds. A Journal may be used concurrently.
type Journal struct {
	prefix string // prefix of all URLs of this journal; no other journal has it

	mu      sync.Mutex
	w       io.Writer // with an os.File, each line is one write(2)
	closer  io.Closer
	entries []Entry
}

// CreateJournal makes a journal in a new file at path. If the file exists already, CreateJournal
// returns an error and does not change it. With an empty path the journal is in memory only.
func CreateJournal(path string) (*Journal, error) {
	if path == "" {
		return newJournal(io.Discard, nil), nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the journal: %w", err)
	}
	return newJournal(f, f), nil
}

func newJournal(w io.Writer, closer io.Closer) *Journal {
	// The path identifies the journal and the creation, so a wrong redirect shows which creation
	// its link belongs to. The query contains characters that a service must not normalise.
	return &Journal{prefix: "https://loadtest.example/" + rand.Text() + "/", w: w, closer: closer}
}

// Intend begins an entry. The request may be sent only when Intend returns no error.
func (j *Journal) Intend() (Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.entries)
	e := Entry{
		N:       n,
		URL:     j.prefix + strconv.Itoa(n) + "?b=%2f&a=Z",
		At:      time.Now(),
		Outcome: Outcome{State: Intended},
	}
	if err := j.write(e.At, n, Intended, e.URL); err != nil {
		return Entry{}, err
	}
	j.entries = append(j.entries, e)
	return e, nil
}

// Settle records the outcome of entry n. An entry can be settled only once.
func (j *Journal) Settle(n int, o Outcome) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if was := j.entries[n].State; was != Intended {
		return fmt.Errorf("creation %d is already settled as %s", n, was)
	}
	j.entries[n].Outcome = o
	return j.write(time.Now(), n, o.State, o.Code+o.Detail) // the code or the detail is empty
}

// write appends a line. It quotes text, because text may come from the service.
func (j *Journal) write(at time.Time, n int, state State, text string) error {
	if _, err := fmt.Fprintf(j.w, "%s %d %s %q\n", at.UTC().Format(time.RFC3339Nano), n, state, text); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// Entries returns a copy of the entries so far, in the order of N.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}

// Close closes the file. The entries in memory stay available.
func (j *Journal) Close() error {
	if j.closer == nil {
		return nil
	}
	return j.closer.Close()
}

// ReadJournal reads the entries that a [Journal] wrote to its file. It ignores an incomplete last line,
// which a crash of the writer leaves. If that line was an intent, the creation was not sent. If that line
// was an outcome, the outcome is unknown.
func ReadJournal(r io.Reader) ([]Entry, error) {
	var entries []Entry
	lines := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		if entries, err = appendLine(entries, line); err != nil {
			return nil, fmt.Errorf("line %d of the journal: %w", number, err)
		}
	}
}

// appendLine adds one line to entries.
func appendLine(entries []Entry, line string) ([]Entry, error) {
	var (
		written, text string
		n             int
		state         State
	)
	if _, err := fmt.Sscanf(line, "%s %d %s %q\n", &written, &n, &state, &text); err != nil {
		return nil, err
	}
	at, err := time.Parse(time.RFC3339Nano, written)
	if err != nil {
		return nil, err
	}
	begun := n >= 0 && n < len(entries) && entries[n].State == Intended
	switch {
	case state == Intended && n == len(entries):
		return append(entries, Entry{N: n, At: at, URL: text, Outcome: Outcome{State: Intended}}), nil
	case state == Acknowledged && begun:
		entries[n].Outcome = Outcome{State: state, Code: text}
	case slices.Contains([]State{Refused, Unknown, Unsent}, state) && begun:
		entries[n].Outcome = Outcome{State: state, Detail: text}
	default:
		return nil, fmt.Errorf("creation %d cannot become %q at this point", n, state)
	}
	return entries, nil
}
