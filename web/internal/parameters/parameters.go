// Package parameters reads the parameters in the path and in the query of a URL. Each of its errors
// maps to a problem (RFC 9457). The problem names the parameter, unless the whole query is malformed.
package parameters

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/web/internal/problem"
)

// Read passes each parameter of a query to set, in the order of the names. It fails if the query is malformed, if a
// parameter is repeated or is not valid UTF-8, or if set fails.
func Read(query string, set func(name, value string) error) error {
	given, err := url.ParseQuery(query)
	if err != nil {
		return problem.Malformed("The query of the URL is malformed: " + err.Error() + ".")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !utf8.ValidString(given[name][0]) {
			return problem.Malformed("The parameter " + problem.Quote(name) + " is not valid UTF-8.")
		}
		if len(given[name]) > 1 {
			return problem.Malformed("The parameter " + problem.Quote(name) + " occurs twice.")
		}
		if err := set(name, given[name][0]); err != nil {
			return err
		}
	}
	return nil
}

// Unknown is the error of a parameter that does not exist. valid is a sentence with the names of the parameters that
// exist.
func Unknown(name, valid string) error {
	return problem.Malformed("There is no parameter " + problem.Quote(name) + ". " + valid)
}

// Int parses a parameter that is a whole number from least to most, in decimal digits without a sign and without
// leading zeros.
func Int(name, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most || strconv.Itoa(n) != value {
		return 0, problem.Malformed(fmt.Sprintf("The parameter %s must be a whole number from %d to %d.", name, least, most))
	}
	return n, nil
}

// Time parses a parameter that is a time in RFC 3339. The letters T and Z may be in lower case, as in the members of
// a link.
func Time(name, value string) (time.Time, error) {
	t, ok := shortener.ParseTime(value)
	if !ok {
		return time.Time{}, problem.Malformed("The parameter " + name + " must be an RFC 3339 time such as 2030-12-31T23:00:00Z.")
	}
	return t, nil
}

// Code returns the decoded code in the path of a request, or "" if its encoding is malformed. If RawPath is empty, echo
// takes the parameters from Path, which is decoded already. Otherwise it takes them from RawPath.
func Code(c echo.Context) string {
	if c.Request().URL.RawPath == "" {
		return c.Param("code")
	}
	code, err := url.PathUnescape(c.Param("code"))
	if err != nil {
		return ""
	}
	return code
}
