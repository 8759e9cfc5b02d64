package shortener

import (
	"strings"
	"testing"
)

// In a database with the encoding SQL_ASCII, PostgreSQL refuses the escape sequence of a character that is not ASCII.
func TestTextOfDetailsEscapesOnlyASCII(t *testing.T) {
	t.Parallel()
	d := &Details{Title: "a\u2028b\u2029\u00e9\U0001f600<>&\"\\u2028\x01", Tags: []string{"\u2028"}, Owner: 7, Version: 1}
	text := d.Text()
	if strings.Contains(strings.ReplaceAll(*text, `\\u2028`, ""), `\u20`) {
		t.Errorf("the text %s has the escape sequence of a character that is not ASCII", *text)
	}
	parsed, err := ParseDetails(text)
	if err != nil || !equalDetails(parsed, d) || parsed.Title != d.Title || parsed.Tags[0] != d.Tags[0] {
		t.Errorf("ParseDetails of %s: %+v, %v, want %+v", *text, parsed, err, d)
	}
}
