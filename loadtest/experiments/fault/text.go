package fault

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

// The functions in this file build the texts of verdicts. A report prints the text of a verdict whether the claim
// holds or fails, so each text must be true in both cases.

// either returns the text yes if ok is true. Otherwise it returns the text no.
func either(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

// running says whether a server still runs.
func running(server *lab.Program) string {
	return either(server.Ended(), "the server has ended", "the server still runs")
}

// reported returns a member of a status as text, or "unknown" if the program reports no value.
func reported[V any](member *V) string {
	if member == nil {
		return "unknown"
	}
	return fmt.Sprint(*member)
}

// created says what happened to a creation.
func created(o loadtest.Outcome) string {
	switch {
	case o.State == loadtest.Acknowledged:
		return "a creation was acknowledged"
	case o.State == loadtest.Refused && o.RetryAfter != "":
		return fmt.Sprintf("a creation was refused with %q and Retry-After %q", o.Detail, o.RetryAfter)
	case o.State == loadtest.Refused:
		return fmt.Sprintf("a creation was refused with %q and without Retry-After", o.Detail)
	}
	return fmt.Sprintf("a creation has the outcome %s (%s)", o.State, o.Detail)
}

// answerTo says how a GET request for a code was answered. The text answer describes the answer. If err is not nil,
// answerTo does not use this text.
func answerTo(code string, err error, answer string) string {
	if err != nil {
		return fmt.Sprintf("GET /%s got no answer (%v)", code, err)
	}
	return fmt.Sprintf("GET /%s was answered with %s", code, answer)
}

// reasons returns the number of abandoned keys for each reason, as text such as "crash 140". It returns "0" if no key is
// abandoned.
func reasons(abandoned map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(abandoned)) {
		if n := abandoned[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", reason, n))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "0")
}

// abandonedKeys says how many keys are abandoned for each reason.
func abandonedKeys(abandoned map[string]int64) string {
	if all := reasons(abandoned); all != "0" {
		return "abandoned keys by reason: " + all
	}
	return "no key is abandoned"
}

// example returns an example as text that continues a sentence. It returns "" if there is no example.
func example(text string) string {
	if text == "" {
		return ""
	}
	return "; for example, " + text
}

// firstOf returns the first of the observations as an example.
func firstOf(observations []string) string {
	if len(observations) == 0 {
		return ""
	}
	return example(observations[0])
}
