package shortener

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestCheckAliasRefusesInvalidAndReservedAliases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		alias  string
		reason string // "" for a valid alias
	}{
		{"a", ""},
		{"Z", ""},
		{"0", ""},
		{"-", ""},
		{"_", ""},
		{"My_link-2026", ""},
		{"0123456789abcdef", ""},
		{"shortens", ""},
		{"adm1n", ""},
		{"", "1 to 16"},
		{"0123456789abcdefg", "1 to 16"},
		{strings.Repeat("a", 4096), "1 to 16"},
		{"a b", "letters"},
		{" a", "letters"},
		{"a/b", "letters"},
		{"a+", "letters"},
		{"a.b", "letters"},
		{"é", "letters"},
		{"ａ", "letters"},
		{"a\x00", "letters"},
		{"%61", "letters"},
		{"shorten", "reserved"},
		{"healthz", "reserved"},
		{"livez", "reserved"},
		{"readyz", "reserved"},
		{"metrics", "reserved"},
		{"status", "reserved"},
		{"debug", "reserved"},
		{"api", "reserved"},
		{"admin", "reserved"},
		{"static", "reserved"},
		{"assets", "reserved"},
		{"docs", "reserved"},
		{"Shorten", "reserved"},
		{"ADMIN", "reserved"},
		{"dOcS", "reserved"},
	} {
		err := checkAlias(test.alias)
		if test.reason != "" {
			assertInvalid(t, err, "alias", test.reason)
		} else if err != nil {
			t.Errorf("checkAlias(%q): %v", test.alias, err)
		}
	}
}

func FuzzAlias(f *testing.F) {
	for _, seed := range []string{"a", "My_link-2026", "0123456789abcdefg", "Admin", "é", "a+", ""} {
		f.Add(seed)
	}
	// These expressions state the rules of checkAlias in another way.
	shape := regexp.MustCompile(`^[A-Za-z0-9_-]{1,16}$`)
	kept := regexp.MustCompile(`^(?i:shorten|healthz|livez|readyz|metrics|status|debug|api|admin|static|assets|docs)$`)
	f.Fuzz(func(t *testing.T, alias string) {
		// In Go, $ matches only at the end of the text, and not before a line break at the end.
		want := shape.MatchString(alias) && !kept.MatchString(alias)
		if err := checkAlias(alias); (err == nil) != want {
			t.Errorf("checkAlias(%q) = %v, which differs from the result of the regular expressions", alias, err)
		}
		if want && !IsCode(alias) {
			t.Errorf("IsCode returns false for the valid alias %q", alias)
		}
	})
}

func assertInvalid(t *testing.T, err error, field, reason string) {
	t.Helper()
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok || invalid.Field != field || !strings.Contains(invalid.Reason, reason) {
		t.Errorf("error %v, want an InvalidError for %s with %q", err, field, reason)
	}
}
