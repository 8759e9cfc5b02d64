package config

import (
	"encoding"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// The types of the settings for visits. The setting UI_USER_HEADER is also a Header.
var (
	_ encoding.TextUnmarshaler = (*Interval)(nil)
	_ encoding.TextUnmarshaler = (*Retention)(nil)
	_ encoding.TextUnmarshaler = (*Header)(nil)
)

// Interval is the time between two flushes.
type Interval time.Duration

// UnmarshalText takes a Go duration from 100ms to 1m.
func (i *Interval) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 100*time.Millisecond || d > time.Minute {
		return &Error{Got: string(text), Takes: "a duration from 100ms to 1m, such as 1s"}
	}
	*i = Interval(d)
	return nil
}

// Retention is how long data is stored.
type Retention time.Duration

const (
	day          = 24 * time.Hour
	maxRetention = 36500 // days
)

// UnmarshalText takes a whole number of days such as 400d, or a Go duration, from one hour to 36500 days.
func (r *Retention) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * day
	}
	if err != nil || d < time.Hour || d > maxRetention*day {
		return &Error{Got: string(text), Takes: "days such as 400d, or a duration such as 48h, from 1h to 36500d"}
	}
	*r = Retention(d)
	return nil
}

// Header is the name of a header, in the canonical form of net/http.
type Header string

// UnmarshalText takes the name of a header. It refuses headers that have another meaning for the server.
func (h *Header) UnmarshalText(text []byte) error {
	name := http.CanonicalHeaderKey(string(text))
	switch name {
	case "Accept", "Authorization", "Connection", "Content-Length", "Content-Type", "Cookie", "Forwarded", "Host", "Idempotency-Key",
		"Origin", "Referer", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Transfer-Encoding", "User-Agent",
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
		return &Error{Got: string(text), Takes: "a request header without another meaning for the server, such as Remote-User or CF-IPCountry"}
	}
	if !httpguts.ValidHeaderFieldName(string(text)) {
		return &Error{Got: string(text), Takes: "the name of a request header, such as Remote-User or CF-IPCountry"}
	}
	*h = Header(name)
	return nil
}
