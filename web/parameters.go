package web

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"
)

// readParameters passes each parameter of a query to set, in the order of their names. It fails if the query is malformed or
// a parameter is repeated.
func readParameters(query string, set func(name, value string) error) error {
	given, err := url.ParseQuery(query)
	if err != nil {
		return malformed("The query of the URL is malformed: " + err.Error() + ".")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !utf8.ValidString(given[name][0]) {
			return malformed("The parameter " + quote(name) + " is not valid UTF-8.")
		}
		if len(given[name]) > 1 {
			return malformed("The parameter " + quote(name) + " occurs twice.")
		}
		if err := set(name, given[name][0]); err != nil {
			return err
		}
	}
	return nil
}

// unknownParameter is the error of a parameter that does not exist. has names the parameters that exist.
func unknownParameter(name, has string) error {
	return malformed("There is no parameter " + quote(name) + ". " + has)
}

// intParameter parses a parameter that is a whole number from least to most.
func intParameter(name, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, malformed(fmt.Sprintf("The parameter %s must be a whole number from %d to %d.", name, least, most))
	}
	return n, nil
}
