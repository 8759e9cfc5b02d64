package shortener

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keypool/shortener/destination"
)

// testNow has nanoseconds, like a real clock.
var testNow = time.Date(2026, time.March, 1, 12, 0, 0, 123_456_789, time.UTC)

func TestParseExpiryAcceptsTimesAndDurations(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) time.Time { return testNow.Add(d).Truncate(time.Microsecond) }
	for _, test := range []struct {
		name, at, in string // "" means that the request has no such field
		want         time.Time
	}{
		{"no expiry", "", "", time.Time{}},
		{"time in UTC", "2030-12-31T23:59:59Z", "", time.Date(2030, 12, 31, 23, 59, 59, 0, time.UTC)},
		{"time in another zone", "2031-01-01T01:29:59+01:30", "", time.Date(2030, 12, 31, 23, 59, 59, 0, time.UTC)},
		{"time with a fraction", "2030-12-31T23:59:59.123456789Z", "", time.Date(2030, 12, 31, 23, 59, 59, 123_456_000, time.UTC)},
		{"time in lower case", "2030-12-31t23:59:59z", "", time.Date(2030, 12, 31, 23, 59, 59, 0, time.UTC)},
		{"time one second from now", "2026-03-01T12:00:01.123456Z", "", time.Date(2026, 3, 1, 12, 0, 1, 123_456_000, time.UTC)},
		{"one second", "", "1", after(time.Second)},
		{"time 100 years from now", "2126-03-01T12:00:00Z", "", time.Date(2126, 3, 1, 12, 0, 0, 0, time.UTC)},
		{"seconds", "", "90", after(90 * time.Second)},
		{"seconds with a fraction", "", "1.000001", after(time.Second + time.Microsecond)},
		{"seconds with an exponent", "", "3.6e3", after(time.Hour)},
		{"100 years of seconds", "", "3155673600", after(3155673600 * time.Second)},
		{"duration", "", "36h", after(36 * time.Hour)},
		{"duration of several parts", "", "1h2m3.5s", after(time.Hour + 2*time.Minute + 3500*time.Millisecond)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseExpiry(given(test.at), given(test.in), testNow)
			if err != nil || !got.Equal(test.want) || got.Location() != time.UTC {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func TestParseExpiryRefusesInvalidValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, at, in, field, reason string }{
		{"expires_at and expires_in", "2030-12-31T23:59:59Z", "90", "expires_in", "together"},
		{"past", "2026-03-01T11:59:59Z", "", "expires_at", "future"},
		{"now", "2026-03-01T12:00:00.123456789Z", "", "expires_at", "future"},
		{"past in another zone", "2026-03-01T12:30:00+01:00", "", "expires_at", "future"},
		{"time less than one second from now", "2026-03-01T12:00:01.123455Z", "", "expires_at", "one second"},
		{"half a second", "", "0.5", "expires_in", "one second"},
		{"duration of a microsecond", "", "1us", "expires_in", "one second"},
		{"time more than 100 years from now", "2126-03-01T12:00:01Z", "", "expires_at", "100 years"},
		{"year 9999", "9999-12-31T23:59:59Z", "", "expires_at", "100 years"},
		{"year 0", "0000-01-01T00:00:00Z", "", "expires_at", "future"},
		{"time without a zone", "2030-12-31T23:59:59", "", "expires_at", "RFC 3339"},
		{"date without a time", "2030-12-31", "", "expires_at", "RFC 3339"},
		{"space instead of the letter T", "2030-12-31 23:59:59Z", "", "expires_at", "RFC 3339"},
		{"day that does not exist", "2030-02-30T00:00:00Z", "", "expires_at", "RFC 3339"},
		{"hour with one digit", "2030-12-31T1:59:59Z", "", "expires_at", "RFC 3339"},
		{"zone of 24 hours", "2030-12-31T23:59:59+24:00", "", "expires_at", "RFC 3339"},
		{"comma before the fraction", "2030-12-31T23:59:59,5Z", "", "expires_at", "RFC 3339"},
		{"Unix time", "1924991999", "", "expires_at", "RFC 3339"},
		{"zero", "", "0", "expires_in", "future"},
		{"less than a microsecond", "", "1e-7", "expires_in", "future"},
		{"negative", "", "-1", "expires_in", "future"},
		{"negative duration", "", "-36h", "expires_in", "future"},
		{"very large negative number", "", "-1e300", "expires_in", "future"},
		{"beyond 100 years of seconds", "", "3155673601", "expires_in", "100 years"},
		{"beyond any duration", "", "9300000000", "expires_in", "100 years"},
		{"beyond int64", "", "99999999999999999999", "expires_in", "100 years"},
		{"beyond float64", "", "1e999", "expires_in", "100 years"},
		{"duration beyond 100 years", "", "1000000h", "expires_in", "100 years"},
		{"duration beyond the range of Go", "", "99999999h", "expires_in", "100 years"},
		{"a word", "", "tomorrow", "expires_in", "number of seconds"},
		{"infinity", "", "inf", "expires_in", "number of seconds"},
		{"NaN", "", "NaN", "expires_in", "number of seconds"},
		{"hexadecimal", "", "0x10", "expires_in", "number of seconds"},
		{"underscore", "", "1_000", "expires_in", "number of seconds"},
		{"exponent without digits", "", "1e", "expires_in", "number of seconds"},
		{"unit unknown to Go", "", "2d", "expires_in", "number of seconds"},
		{"space", "", " 90", "expires_in", "number of seconds"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseExpiry(given(test.at), given(test.in), testNow)
			assertInvalid(t, err, test.field, test.reason)
			if !got.IsZero() {
				t.Errorf("returned %v with the error", got)
			}
		})
	}
}

func TestParseDurationRoundsToTheNearestNanosecond(t *testing.T) {
	t.Parallel()
	// The floating-point number that is nearest to 0.00026 is less than 0.00026. Truncation
	// would give 259,999 ns.
	if got, ok := parseDuration("0.00026"); !ok || got != 260*time.Microsecond {
		t.Errorf("got %v, %v; want 260 microseconds", got, ok)
	}
}

func TestParseExpiryRefusesEmptyText(t *testing.T) {
	t.Parallel()
	empty := ""
	_, err := parseExpiry(&empty, nil, testNow)
	assertInvalid(t, err, "expires_at", "RFC 3339")
	_, err = parseExpiry(nil, &empty, testNow)
	assertInvalid(t, err, "expires_in", "number of seconds")
}

func TestParseExpiryReturnsTimeBetweenMinimumAndMaximum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`-?[0-9]{1,25}(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?`),
			rapid.StringMatching(`-?[0-9]{1,12}(h|m|s|ms|us|ns)`),
			rapid.String(),
		).Draw(t, "expires_in")
		got, err := parseExpiry(nil, &text, testNow)
		if err != nil {
			return
		}
		if got.Before(stamp(testNow.Add(minExpiry))) || got.After(testNow.AddDate(maxYears, 0, 0)) || got != stamp(got) {
			t.Fatalf("parseExpiry(%q) = %v", text, got)
		}
	})
}

// given returns the field of a request to which the user gave the value s. "" means that
// the user did not send the field.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// MaxAge is the maximum time until the expiry. If the request has no expiry, the link expires after
// MaxAge.
func TestMaxAgeIsDefaultAndLimitOfTimeUntilExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	const maxAge = 48 * time.Hour
	for _, tt := range []struct {
		request Request
		want    time.Duration // from now, without the fraction of a microsecond; 0 if the request is refused
		field   string
	}{
		{Request{}, maxAge, ""},
		{Request{ExpiresIn: new("48h")}, maxAge, ""},
		{Request{ExpiresIn: new("1h")}, time.Hour, ""},
		{Request{ExpiresIn: new("48h1s")}, 0, "expires_in"},
		{Request{ExpiresAt: new("2026-01-04T03:04:05.678901Z")}, maxAge, ""},
		{Request{ExpiresAt: new("2026-01-04T03:04:05.678902Z")}, 0, "expires_at"},
	} {
		r := tt.request
		r.URL, r.MaxAge = "https://go.dev/", maxAge
		link, err := r.Link(now, new(destination.Rules))
		if tt.field != "" {
			invalid, ok := errors.AsType[*InvalidError](err)
			if !ok || invalid.Field != tt.field || !strings.Contains(invalid.Reason, "within 48h,") {
				t.Errorf("%+v: error %v, want an error of %s that names the bound", tt.request, err, tt.field)
			}
			continue
		}
		if want := stamp(now.Add(tt.want)); err != nil || !link.ExpiresAt.Equal(want) {
			t.Errorf("%+v: expiry %v, error %v; want %v", tt.request, link.ExpiresAt, err, want)
		}
	}
}

func TestShortDurationOmitsTrailingZeroUnits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		720 * time.Hour: "720h", 36*time.Hour + 30*time.Minute: "36h30m", 10 * time.Second: "10s",
		time.Hour + 5*time.Second: "1h0m5s", 10 * time.Minute: "10m", 20 * time.Hour: "20h",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("shortDuration(%d) = %q, want %q", d, got, want)
		}
	}
}
