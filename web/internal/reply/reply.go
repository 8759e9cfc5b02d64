// Package reply writes the answers that the public and the admin listener have in
// common: JSON, health and problems (RFC 9457).
//
// Invariant: an answer is encoded completely before its first byte is sent.
package reply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"keypool/web/internal/media"
)

// TypePrefix is the prefix of every problem type. The types never change, because clients depend on
// them.
const TypePrefix = "urn:keypool:problem:"

// Problem is the body of an error answer (RFC 9457).
type Problem struct {
	Type   string `json:"type"` // TypePrefix followed by a name
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"` // the member of the request that caused the error

	Suggestions []string `json:"suggestions,omitempty"` // free aliases, if the alias is taken
	RetryAfter  int      `json:"retry_after,omitempty"` // seconds until the client may send the request again
}

// Labelled returns the detail for people. The detail of an invalid field begins with the name of a JSON member.
// Labelled replaces this name by the label, unless the label is empty.
func (p *Problem) Labelled(label string) string {
	if reason, ok := strings.CutPrefix(p.Detail, p.Field+" "); ok && label != "" {
		return label + " " + reason
	}
	return p.Detail
}

// Unavailable is the problem of a program that cannot do its work at present.
func Unavailable() Problem {
	return Problem{
		Type: TypePrefix + "unavailable", Title: "The service is unavailable", Status: http.StatusServiceUnavailable,
		Detail: "The service cannot handle the request at present. Try again shortly.",
	}
}

// Write sends p.
func (p Problem) Write(w http.ResponseWriter) error { return JSON(w, media.Problem, p.Status, p) }

// JSON sends v as JSON with the given media type. If the encoding fails, nothing was sent
// and the caller can still answer with a 500. If the answer cannot be sent, the error wraps
// ErrNotSent. JSON does not escape "&" in URLs.
func JSON(w http.ResponseWriter, mediaType string, status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return Encoded(w, mediaType, status, body)
}

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return buf.Bytes(), err
}

// Encoded sends an encoded answer, such as JSON, with the given media type. The media type and the
// nosniff header prevent browsers from reading the answer as HTML. If the answer cannot be sent,
// the error wraps ErrNotSent.
func Encoded(w http.ResponseWriter, mediaType string, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	return Send(w, status, body)
}

// AppendString encodes the string s as the function [JSON] does, and appends the result.
func AppendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := encode(s) // the encoding of a string cannot fail
			return append(b, bytes.TrimSuffix(quoted, []byte("\n"))...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// ErrNotSent means that an answer was not sent completely, for example because the client closed
// the connection.
var ErrNotSent = errors.New("the answer was not sent")

// Send sends an encoded answer. Each of its errors wraps ErrNotSent.
func Send(w http.ResponseWriter, status int, body []byte) error {
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return nil
}

// Health answers 200. The body has the status "degraded" if the program works without one of its parts, such as the
// pool, and otherwise the status "ok".
func Health(w http.ResponseWriter, degraded bool) error {
	status := "ok"
	if degraded {
		status = "degraded"
	}
	w.Header().Set("Cache-Control", "no-store")
	return JSON(w, media.JSON, http.StatusOK, map[string]string{"status": status})
}
