package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"keypool/shortener"
)

// readJSON yields the records of a file with one JSON object per line. It ignores empty lines.
func readJSON(file io.Reader, parse func(text []byte) (Record, error)) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReaderSize(file, maxRecord+len("\r\n"))
		skipMark(in)
		for number := 1; ; number++ {
			text, tooLong, err := nextLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Line{Number: number}, err)
				return
			}
			line := Line{Number: number}
			text = bytes.TrimSpace(text)
			switch {
			case tooLong:
				line.Refusal = errTooLong
			case len(text) > 0:
				line.Record, line.Refusal = parse(text)
			}
			if (tooLong || len(text) > 0) && !yield(line, nil) || err != nil {
				return
			}
		}
	}
}

// nextLine returns the next line. The text is valid until the next read. If the line is longer than
// the buffer, nextLine discards it. For the last line, nextLine also returns io.EOF.
func nextLine(in *bufio.Reader) (text []byte, tooLong bool, err error) {
	text, err = in.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong, text = true, nil
		_, err = in.ReadSlice('\n')
	}
	return text, tooLong, err
}

// parseRecord parses a line of an export in the format NDJSON.
func parseRecord(text []byte) (r Record, refusal error) {
	r = newRecord()
	if refusal := decode(text, &r, json.RejectUnknownMembers(true), json.WithUnmarshalers(json.UnmarshalFunc(decodeTime))); refusal != nil {
		return r, refusal
	}
	if !isCount(r.Visits.Human) || !isCount(r.Visits.Bot) {
		return r, &shortener.InvalidError{Field: "visits", Reason: takesCount}
	}
	return r, nil
}

// decodeTime decodes a time. As in a CSV file, the time must not be the zero time.
func decodeTime(text []byte, at *time.Time) error {
	if string(text) == "null" {
		return nil
	}
	var t time.Time
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	return set(at, t)
}

// decode decodes a JSON object. If a member is invalid, the error names this member.
func decode(text []byte, object any, options ...json.Options) error {
	err := json.Unmarshal(text, object, options...)
	if err == nil && text[0] != '{' { // the text is null
		return errNoObject
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return syntaxRefusal(err)
	case semantic.JSONPointer == "":
		return errNoObject
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("must not have the member %.40q; only the members that an export writes are allowed", semantic.JSONPointer.LastToken())
	}
	if errors.Is(err, errYears) {
		return &shortener.InvalidError{Field: string(semantic.JSONPointer[1:]), Reason: takesYears}
	}
	return &shortener.InvalidError{Field: string(semantic.JSONPointer[1:]), Reason: accepted(string(semantic.JSONPointer))}
}

var errNoObject = errors.New("must be a JSON object")

func syntaxRefusal(err error) error {
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return fmt.Errorf("must be a JSON object: %w", err)
	}
	return fmt.Errorf("must be a JSON object: %w after byte %d", syntactic.Err, syntactic.ByteOffset)
}

// accepted describes the valid values of the member with this JSON pointer.
func accepted(pointer string) string {
	switch pointer {
	case "/created_at", "/expires_at", "/changed_at", "/url_changed_at", "/deleted_at", "/Created", "/LastEdit":
		return takesTime
	case "/editable":
		return "must be true or false"
	case "/version", "/redirect", "/visits/human", "/visits/bot", "/Clicks":
		return "must be a whole number"
	case "/tags":
		return "must be an array of strings"
	case "/visits":
		return `must be an object such as {"human":1,"bot":0}`
	}
	return "must be a string"
}

// jsonWriter writes an export as NDJSON.
type jsonWriter struct{ w *bufio.Writer }

func (j jsonWriter) write(r *Record) error {
	if err := json.MarshalWrite(j.w, r); err != nil {
		return err
	}
	return j.w.WriteByte('\n')
}

func (j jsonWriter) flush() error { return j.w.Flush() }
