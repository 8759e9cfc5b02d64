package server

import (
	"fmt"
	"net/http"
	"testing"

	"keypool/internal/testenv"
)

// PgBouncer in transaction mode may run each transaction of a client on another connection. Servers work behind
// PgBouncer, without a parameter in the URL, because they keep no state in a connection after the end of a
// transaction.
func TestServersWorkBehindPgBouncerInTransactionMode(t *testing.T) {
	t.Parallel()
	bouncer := testenv.StartPgBouncer(t, testenv.StartPostgres(t))
	servers := []*running{start(t, settings(t, bouncer.URL, "")), start(t, settings(t, bouncer.URL, ""))}
	use := func(when string) {
		t.Helper()
		for n := range 50 {
			for i, r := range servers {
				url := fmt.Sprintf("https://go.dev/%s/%d/%d", when, i, n)
				servers[1-i].wantStatus(r.shorten(url), http.StatusFound, url)
			}
		}
	}
	use("before")
	bouncer.Restart()
	for _, r := range servers { // a look-up on a connection from before the restart fails and closes the connection
		for found := 0; found < 10; {
			switch a := r.once("", http.MethodGet, "http://"+r.Addr().String()+"/none00", ""); a.status {
			case http.StatusNotFound:
				found++
			case http.StatusServiceUnavailable:
				found = 0
			default:
				t.Fatalf("GET of an unknown code: %+v", a)
			}
		}
	}
	use("after")
	for _, r := range servers {
		r.stop()
	}
	if r := auditJSON(t, bouncer.URL, ""); r.status != 0 {
		t.Errorf("audit: exit status %d, %v, %s", r.status, r.Faults, r.stderr)
	}
}
