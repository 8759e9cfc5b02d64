package operate

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
)

// checked names an environment variable. If the variable is set, its value is an address, and the test binary checks the
// health of the program at this address.
const checked = "KEYPOOL_TEST_HEALTH"

// The check runs in another process, because net/http reads HTTP_PROXY once. net/http never uses a proxy for the host
// localhost. But it would use a proxy for the host LOCALHOST, which has the same address.
func TestHealthCheckUsesNoProxy(t *testing.T) {
	t.Parallel()
	if addr := os.Getenv(checked); addr != "" {
		if err := CheckHealth(t.Context(), addr); err != nil {
			t.Error(err)
		}
		return
	}
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(ready.Close)
	proxy := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(proxy.Close)
	_, port, err := net.SplitHostPort(ready.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), checked+"="+net.JoinHostPort("LOCALHOST", port), "HTTP_PROXY="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("the health check of a program that is ready: %v\n%s", err, out)
	}
}
