package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHostCheckRefusesRequestsForOtherHosts(t *testing.T) {
	t.Parallel()
	h := OnlyHosts(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), []string{"server1", "keypool.internal"})
	for host, want := range map[string]int{
		"localhost": 204, "LOCALHOST:8081": 204, "127.0.0.1": 204, "10.1.2.3:8081": 204, "[::1]:8081": 204, "[::1]": 204,
		"server1:8081": 204, "Server1": 204, "keypool.internal.": 204,
		"": 421, "evil.example": 421, "evil.example:8081": 421, "server1.evil.example": 421, "xserver1": 421, "127.0.0.1.evil.example": 421,
		"localhost.evil.example:8081": 421, "2130706433": 421, "a b": 421,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || want == 421 && !strings.Contains(w.Body.String(), "ADMIN_HOSTS") {
			t.Errorf("the host %q has status %d, want %d: %s", host, w.Code, want, w.Body)
		}
	}
}
