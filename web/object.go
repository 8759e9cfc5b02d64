package web

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"keypool/shortener"
)

// parseJSON parses one object. json.Unmarshal accepts repeated members and other letter
// case, and reading tokens from a json.Decoder takes four times as long. So parseJSON
// validates the text and then walks it, which needs few rules of JSON.
func parseJSON(body []byte) (fields, error) {
	if !utf8.Valid(body) { // the decoder would replace invalid bytes and change the URL
		return fields{}, malformed("The body is not valid UTF-8.")
	}
	if !json.Valid(body) {
		err := json.Unmarshal(body, new(any))
		return fields{}, malformed("The body is malformed JSON: " + err.Error() + ".")
	}
	rest := trimSpace(body)
	if rest[0] != '{' {
		return fields{}, malformed("The body is not a JSON object.")
	}
	var f fields
	seen := make([]**string, 0, 4)
	for rest = trimSpace(rest[1:]); rest[0] != '}'; {
		var literal, value []byte
		literal, rest = cutString(rest)
		value, rest = cutValue(trimSpace(trimSpace(rest)[1:])) // after the colon
		name := unquote(literal)
		place := f.member(name)
		switch {
		case place == nil:
			return fields{}, malformed("The member " + quote(name) + " is unknown.")
		case slices.Contains(seen, place):
			return fields{}, malformed("The member " + quote(name) + " appears twice.")
		}
		seen = append(seen, place)
		if err := setMember(place, name, value); err != nil {
			return fields{}, err
		}
		if rest = trimSpace(rest); rest[0] == ',' {
			rest = trimSpace(rest[1:])
		}
	}
	return f, nil
}

// setMember stores the value of a member; null counts as absent.
func setMember(place **string, name string, value []byte) error {
	switch c := value[0]; {
	case c == 'n':
		return nil
	case c == '"':
		v := unquote(value)
		if repaired(value, v) {
			return malformed("The member " + quote(name) + " has an escape of half a surrogate pair.")
		}
		*place = &v
		return nil
	case name == "expires_in" && (c == '-' || '0' <= c && c <= '9'):
		v := string(value)
		*place = &v
		return nil
	case name == "expires_in":
		return &shortener.InvalidError{Field: name, Reason: `must be a number of seconds or a duration such as "36h"`}
	}
	return &shortener.InvalidError{Field: name, Reason: "must be a string"}
}

// The functions below require valid JSON and therefore check no bounds.

func trimSpace(text []byte) []byte {
	for text[0] == ' ' || text[0] == '\t' || text[0] == '\r' || text[0] == '\n' {
		text = text[1:]
	}
	return text
}

// cutValue cuts text after its first value. Of an object or an array it returns a prefix,
// which is enough: no member accepts one.
func cutValue(text []byte) (value, after []byte) {
	if text[0] == '"' {
		return cutString(text)
	}
	end := max(1, bytes.IndexAny(text, ",}] \t\r\n"))
	return text[:end], text[end:]
}

// cutString cuts text after its first string, which includes the quotes.
func cutString(text []byte) (literal, after []byte) {
	end := 1
	for ; text[end] != '"'; end++ {
		if text[end] == '\\' {
			end++ // an escaped character does not end the string
		}
	}
	return text[:end+1], text[end+1:]
}

var escapeSequence = regexp.MustCompile(`\\(u[0-9A-Fa-f]{4}|.)`)

// repaired reports whether the decoder replaced half a surrogate pair by U+FFFD, which
// would change the URL. A U+FFFD of the client stays.
func repaired(literal []byte, value string) bool {
	const sign = string(utf8.RuneError)
	found := strings.Count(value, sign)
	if found == 0 {
		return false
	}
	for _, escape := range escapeSequence.FindAll(literal, -1) {
		if bytes.EqualFold(escape, []byte(`\ufffd`)) {
			found--
		}
	}
	return found > bytes.Count(literal, []byte(sign))
}

// unquote decodes a string in quotes.
func unquote(literal []byte) string {
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(literal[1 : len(literal)-1])
	}
	var s string
	if err := json.Unmarshal(literal, &s); err != nil {
		panic(err) // parseJSON has validated the text
	}
	return s
}
