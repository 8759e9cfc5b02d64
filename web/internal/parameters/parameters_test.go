package parameters

import (
	"strings"
	"testing"
	"time"

	"keypool/web/internal/problem"
)

// A time has a date, a time of day and a zone (RFC 3339, section 5.6).
func TestTimeParameterMustBeRFC3339(t *testing.T) {
	t.Parallel()
	want := time.Date(2030, time.December, 31, 23, 0, 0, 0, time.UTC)
	for _, text := range []string{
		"2030-12-31T23:00:00Z", "2030-12-31t23:00:00z", "2030-12-31T23:00:00.000Z", "2031-01-01T00:30:00+01:30", "2030-12-31T00:00:00-23:00",
	} {
		if got, err := Time("from", text); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, want %v: %v", text, got, want, err)
		}
	}
	for _, text := range []string{
		"", "2030-12-31", "2030-12-31T23:00Z", "2030-12-31T23:00:00", "2030-12-31 23:00:00Z", "2030-02-30T23:00:00Z", "2030-12-31T24:00:00Z",
		"2030-12-31T23:00:00+0100", "2030-12-31T23:00:00 01:00", "12030-12-31T23:00:00Z", "1893452400",
	} {
		if got, err := Time("from", text); err == nil || !strings.HasPrefix(problem.Of(err).Detail, "The parameter from must be") {
			t.Errorf("%q is %v with the error %v, want a problem", text, got, err)
		}
	}
}
