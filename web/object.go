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

// parseJSON reads one object. Unmarshal would let through repeated members and members in
// other letter case, and to go by the tokens of a Decoder takes four times as long: so a
// text that is valid is walked here, which needs to know little of JSON.
func parseJSON(body []byte) (fields, error) {
	if !utf8.Valid(body) { // the decoder would repair it, and store another URL than was sent
		return fields{}, malformed("The body is not valid UTF-8.")
	}
	if !json.Valid(body) {
		err := json.Unmarshal(body, new(any))
		return fields{}, malformed("The body is not well-formed JSON: " + err.Error() + ".")
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
			return fields{}, malformed("There is no member " + quote(name) + ".")
		case slices.Contains(seen, place):
			return fields{}, malformed("The member " + quote(name) + " is there twice.")
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

// setMember puts the value of a member in its place; null is as good as not given.
func setMember(place **string, name string, value []byte) error {
	switch c := value[0]; {
	case c == 'n':
		return nil
	case c == '"':
		v := unquote(value)
		if repaired(value, v) {
			return malformed("The member " + quote(name) + " has an escape that is half of a character.")
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

// What follows takes text that is valid JSON, which has all that is looked for.

func trimSpace(text []byte) []byte {
	for text[0] == ' ' || text[0] == '\t' || text[0] == '\r' || text[0] == '\n' {
		text = text[1:]
	}
	return text
}

// cutValue cuts text after the value that it begins with. Of an object or an array only the
// beginning is a value: no member may have one.
func cutValue(text []byte) (value, after []byte) {
	if text[0] == '"' {
		return cutString(text)
	}
	end := max(1, bytes.IndexAny(text, ",}] \t\r\n"))
	return text[:end], text[end:]
}

// cutString cuts text after the string, in quotes, that it begins with.
func cutString(text []byte) (literal, after []byte) {
	end := 1
	for ; text[end] != '"'; end++ {
		if text[end] == '\\' {
			end++ // what is escaped ends nothing
		}
	}
	return text[:end+1], text[end+1:]
}

var escapeSequence = regexp.MustCompile(`\\(u[0-9A-Fa-f]{4}|.)`)

// repaired reports whether the decoder put U+FFFD where an escape was half of a surrogate
// pair: the URL would not be the one that was sent. Who wrote U+FFFD gets it.
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

// unquote gives what a string in quotes stands for.
func unquote(literal []byte) string {
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(literal[1 : len(literal)-1])
	}
	var s string
	if err := json.Unmarshal(literal, &s); err != nil {
		panic(err) // the whole text was found valid
	}
	return s
}
