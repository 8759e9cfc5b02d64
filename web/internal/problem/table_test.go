package problem

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"keypool/internal/slots"
	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/web/internal/reply"
)

func TestEachErrorMapsToOneProblem(t *testing.T) {
	t.Parallel()
	gone := &shortener.UnavailableError{RetryAfter: 1200 * time.Millisecond, Err: errors.New("host db-7 refused")}
	tests := []struct {
		err    error
		status int
		name   string
		retry  int
	}{
		{fmt.Errorf("look up: %w", shortener.ErrNotFound), 404, "not-found", 1},
		{shortener.ErrGone, 410, "gone", 1},
		{shortener.ErrLinkBlocked, 410, "gone", 1},
		{destination.ErrBlocked, 422, "blocked-destination", 1},
		{shortener.ErrAliasTaken, 409, "alias-taken", 1},
		{&shortener.InvalidError{Field: "url", Reason: "must"}, 422, "invalid-field", 1},
		{gone, 503, "unavailable", 2},
		{&shortener.UnavailableError{Err: shortener.ErrStoreFull}, 503, "unavailable", 1},
		{&shortener.UnavailableError{RetryAfter: time.Second, Err: slots.ErrBusy}, 503, "unavailable", 1},
		{fmt.Errorf("draw: %w", slots.ErrBusy), 503, "unavailable", 1},
		{fmt.Errorf("%w: %w", shortener.ErrNotWritten, shortener.ErrRefused), 500, "internal", 1},
		{&http.MaxBytesError{Limit: 1}, 413, "too-large", 1},
		{&LimitedError{Limit: ErrTooManyMisses, RetrySeconds: 7}, 429, "too-many-misses", 7},
		{&LimitedError{Limit: ErrLimited, RetrySeconds: 3}, 429, "rate-limited", 3},
		{Unauthorized("no"), 401, "unauthorized", 1},
		{Forbidden("no"), 403, "forbidden", 1},
		{echo.ErrMethodNotAllowed, 405, "method-not-allowed", 1},
		{echo.ErrNotFound, 404, "no-such-page", 1},
		{errors.New("pq: password authentication failed"), 500, "internal", 1},
	}
	for _, tt := range tests {
		p := Of(tt.err)
		if p.Status != tt.status || p.Type != reply.TypePrefix+tt.name || p.Detail == "" || p.Title == "" {
			t.Errorf("the problem of %v is %+v", tt.err, p)
		}
		if strings.Contains(p.Detail, "db-7") || strings.Contains(p.Detail, "password") {
			t.Errorf("%v: the detail %q contains internals", tt.err, p.Detail)
		}
		if got := RetrySeconds(tt.err); got != tt.retry {
			t.Errorf("%v: Retry-After is %d", tt.err, got)
		}
	}
}

// The document lists the problem types of the table and no others.
func TestOpenAPIDocumentListsEveryProblem(t *testing.T) {
	t.Parallel()
	used := map[string]bool{Of(errors.New("unknown")).Type: true}
	for _, row := range table {
		used[row.problem.Type] = true
	}
	listed := map[string]bool{}
	document, err := openapi3.NewLoader().LoadFromFile("../../assets/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range document.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		listed[v.(string)] = true
	}
	if diff := cmp.Diff(listed, used); diff != "" {
		t.Errorf("listed (-) and used (+):\n%s", diff)
	}
}
