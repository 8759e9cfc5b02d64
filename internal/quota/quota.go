// Package quota defines the rates of limits. Settings and API tokens use the same text form of a rate. The rate of a
// limit is the number of requests per second. The quota of the limit is the number of requests that may arrive at
// once. The quota is ten times the rate.
package quota

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Rate is a number of requests per second. The zero value is [Off].
type Rate int64

// Off is the Rate without a limit.
const Off Rate = 0

const (
	maxRate = 1_000_000
	// burstSeconds is the ratio of the quota to the rate. A limit without requests regains its
	// whole quota within this time.
	burstSeconds = 10
)

// Takes describes the text that ParseRate accepts.
const Takes = "N/s with a whole number N from 1 to 1000000, such as 100/s; or off"

// ErrRate reports that a text is not a rate.
var ErrRate = errors.New("not a rate")

// ParseRate parses a rate such as "100/s", or "off".
func ParseRate(text string) (Rate, error) {
	if text == "off" {
		return Off, nil
	}
	number, ok := strings.CutSuffix(text, "/s")
	n, err := strconv.ParseUint(number, 10, 32) // unlike ParseInt, ParseUint accepts no sign
	if !ok || err != nil || n < 1 || n > maxRate {
		return Off, fmt.Errorf("%w: got %q, takes %s", ErrRate, text, Takes)
	}
	return Rate(n), nil
}

// String returns the text that ParseRate parses.
func (r Rate) String() string {
	if r == Off {
		return "off"
	}
	return strconv.FormatInt(int64(r), 10) + "/s"
}

// Burst returns the number of requests that may arrive at once. It is ten times the rate.
func (r Rate) Burst() int { return burstSeconds * int(r) }
