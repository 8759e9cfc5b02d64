package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// asProgram names an environment variable. If the variable is set, the test binary runs main instead of the tests.
const asProgram = "KEYPOOL_TEST_LOADTEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// startShortener serves links from a map until the test ends, and returns its URL. If forgets
// is true, the service acknowledges links and does not store them. If ill is true, its health
// check fails.
func startShortener(t *testing.T, forgets, ill bool) string {
	t.Helper()
	var links sync.Map
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if ill {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /shorten", func(w http.ResponseWriter, r *http.Request) {
		var link struct{ URL string }
		if err := json.NewDecoder(r.Body).Decode(&link); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		code := fmt.Sprintf("%x", strings.TrimPrefix(link.URL, "https://loadtest.example/"))
		if !forgets {
			links.Store(code, link.URL)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"code":%q}`, code)
	})
	mux.HandleFunc("GET /{code}", func(w http.ResponseWriter, r *http.Request) {
		url, ok := links.Load(r.PathValue("code"))
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Location", url.(string))
		w.WriteHeader(http.StatusFound)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestCommandsThatCannotStartExitWithStatus2(t *testing.T) {
	t.Parallel()
	honest, nothing := startShortener(t, false, false), filepath.Join(t.TempDir(), "nothing")
	tests := []struct {
		name   string
		args   []string
		status int
		stdout string
		stderr string
	}{
		{"help", []string{"--help"}, 0, "Exit status: 0 passed", ""},
		{"version", []string{"--version"}, 0, "loadtest unknown (commit unknown)\n", ""},
		{"no target", []string{"run"}, 2, "", "--target"},
		{"not a URL", []string{"run", "--target", "localhost:8080"}, 2, "", "--target"},
		{"another machine", []string{"run", "--target", "http://192.0.2.1:8080"}, 2, "", "--yes"},
		{"no server", []string{"run", "--target", "http://127.0.0.1:1"}, 2, "", "not healthy"},
		{"not healthy", []string{"run", "--target", startShortener(t, false, true)}, 2, "", "503"},
		{"negative duration", []string{"run", "--target", honest, "--duration=-1s"}, 2, "", "--duration"},
		{"rate that is not a number", []string{"run", "--target", honest, "--rate=NaN"}, 2, "", "--rate"},
		{"experiment with servers of its own", []string{"run", "--target", honest, "--only=drain"}, 2, "", "can run against a target"},
		{"no such experiment", []string{"all", "--only=create,nothing"}, 2, "", "nothing"},
		{"not in the load test", []string{"all", "--only=fault/10"}, 2, "", "fault/10"},
		{"negative rate", []string{"run", "--target", honest, "--rate=-1"}, 2, "", "--rate"},
		{"no programs", []string{"all"}, 2, "", "make build"},
		{"no such group", []string{"experiments", "schemes"}, 2, "", "schemes"},
		{"no such suite", []string{"experiments", "--suite=weekly"}, 2, "", "--suite"},
		{"scale of 0", []string{"experiments", "fault/10", "--scale=0"}, 2, "", "--scale"},
		{"share beyond the end", []string{"experiments", "fault", "--share=3/2"}, 2, "", "--share"},
		{"share of too few experiments", []string{"experiments", "fault/10", "--share=1/2"}, 2, "", "--share"},
		{"list", []string{"experiments", "--suite=change", "--list"}, 0, "fault/10", ""},
		{"nothing to compare", []string{"compare", nothing, nothing}, 2, "", "no such file"},
	}
	for _, tt := range tests {
		var stdout, stderr strings.Builder
		status := run(t.Context(), tt.args, &stdout, &stderr)
		if status != tt.status || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: exit status %d, want %d with %q and %q; output:\n%s%s",
				tt.name, status, tt.status, tt.stdout, tt.stderr, &stdout, &stderr)
		}
	}
}

func TestErrorsOtherThanErrFailedArePrinted(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for _, tt := range []struct {
		err     error
		status  int
		printed string
	}{
		{nil, exitPassed, ""},
		{errFailed, exitFailed, ""},
		{errors.Join(errFailed, nil), exitFailed, ""},
		{errors.Join(errFailed, full), exitFailed, full.Error()},
		{full, exitNotRun, full.Error()},
	} {
		var stderr strings.Builder
		status := exitStatus(tt.err, &stderr)
		if status != tt.status || !strings.Contains(stderr.String(), tt.printed) || (stderr.Len() == 0) != (tt.printed == "") {
			t.Errorf("%v: exit status %d, want %d with %q; output:\n%s", tt.err, status, tt.status, tt.printed, &stderr)
		}
	}
}

func TestLoopbackReturnsTrueOnlyForThisMachine(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true,
		"": false, "0.0.0.0": false, "10.0.0.1": false, "localhost.example.com": false, "example.com": false,
	} {
		if got := loopback(host); got != want {
			t.Errorf("loopback(%q) = %v", host, got)
		}
	}
}
