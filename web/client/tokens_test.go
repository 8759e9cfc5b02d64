package client

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"keypool/shortener/token"
	"keypool/web/internal/problem"
)

func TestTokenErrorsBecomeProblems(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		fmt.Errorf("%w: dial db-7", token.ErrUnavailable): http.StatusServiceUnavailable,
		token.ErrUnknown: http.StatusUnauthorized,
		token.ErrRevoked: http.StatusUnauthorized,
		token.ErrExpired: http.StatusUnauthorized,
	} {
		if p := problem.Of(refusal(err)); p.Status != want || strings.Contains(p.Detail, "db-7") {
			t.Errorf("the problem of %v is %+v, want status %d", err, p, want)
		}
	}
}
