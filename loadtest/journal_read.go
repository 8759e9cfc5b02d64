package loadtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ReadJournal reads what a [Journal] wrote. It ignores a last line without its end, which a
// crash of the writer leaves: a creation whose intent is not in the journal was not sent, and
// the outcome of a creation without one is unknown.
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
		if entries, err = appendLine(entries, strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("line %d of the journal: %w", number, err)
		}
	}
}

// appendLine adds one line to entries.
func appendLine(entries []Entry, line string) ([]Entry, error) {
	at, n, state, text, err := parseLine(line)
	switch {
	case err != nil:
		return nil, err
	case state == Intended && n == len(entries):
		return append(entries, Entry{N: n, At: at, URL: text, Outcome: Outcome{State: Intended}}), nil
	case state == Intended || n < 0 || n >= len(entries) || entries[n].State != Intended:
		return nil, fmt.Errorf("creation %d cannot become %s at this point", n, state)
	case state == Acknowledged:
		entries[n].Outcome = Outcome{State: state, Code: text}
	default:
		entries[n].Outcome = Outcome{State: state, Detail: text}
	}
	return entries, nil
}

func parseLine(line string) (at time.Time, n int, state State, text string, err error) {
	fields := strings.SplitN(line, " ", 4)
	if len(fields) != 4 {
		return at, 0, "", "", errors.New("the line does not have four fields")
	}
	at, atErr := time.Parse(time.RFC3339Nano, fields[0])
	n, nErr := strconv.Atoi(fields[1])
	switch state = State(fields[2]); state {
	case Intended, Acknowledged, Refused, Unknown, Unsent:
	default:
		err = fmt.Errorf("unknown state %q", state)
	}
	text, textErr := strconv.Unquote(fields[3])
	return at, n, state, text, errors.Join(atErr, nErr, err, textErr)
}
