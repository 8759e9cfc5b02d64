package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keypool/internal/testenv/logbuffer"
)

// signalled is a log. For each log line that contains the text, it sends a value to the channel lines.
type signalled struct {
	logbuffer.Buffer

	text  string
	lines chan struct{}
}

func newSignalled(text string) *signalled {
	return &signalled{text: text, lines: make(chan struct{}, 100)}
}

func (s *signalled) Write(line []byte) (int, error) {
	if strings.Contains(string(line), s.text) {
		s.lines <- struct{}{}
	}
	return s.Buffer.Write(line)
}

func (s *signalled) wait(t *testing.T) {
	t.Helper()
	select {
	case <-s.lines:
	case <-time.After(2 * time.Minute):
		t.Fatalf("waited 2 min for a log line with %q:\n%s", s.text, s.String())
	}
}

// replaceFile replaces a file by a rename, as an editor does.
func replaceFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestServerAppliesChangesOfBlockFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hosts")
	replaceFile(t, path, "first.example\n")
	log := newSignalled("block list in use")
	r := startLogging(t, settings(t, sqliteURL(t), "", "--block-hosts-file="+path), log)
	log.wait(t)
	r.wantBlocked("http://first.example./")
	code := r.shorten("https://www.evil.example/")
	r.wantStatus(code, http.StatusFound, "https://www.evil.example/")
	replaceFile(t, path, "*.evil.example\n")
	log.wait(t)
	r.wantStatus(code, http.StatusGone, "")
	r.wantBlocked("https://EVIL.example:8443/")
	replaceFile(t, path, "good.example\n")
	log.wait(t)
	r.wantStatus(code, http.StatusFound, "https://www.evil.example/")
}

// wantBlocked fails the test unless the server refuses url because of its block list.
func (r *running) wantBlocked(url string) {
	r.t.Helper()
	a := r.do(http.MethodPost, "http://"+r.Addr().String()+"/shorten", "url="+url)
	if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "blocked-destination") {
		r.t.Errorf("POST /shorten with %s: %+v, want blocked-destination", url, a)
	}
}

func TestServerDoesNotStartIfBlockFileIsUnusable(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "hosts")
	replaceFile(t, bad, "good.example\nhttps://evil.example/\n")
	for path, reason := range map[string]string{
		bad:                                   `line 2 is "https://evil.example/"; a line takes a host name or an IP address`,
		filepath.Join(t.TempDir(), "no-file"): "no such file",
		t.TempDir():                           "not a regular file",
	} {
		database := filepath.Join(t.TempDir(), "links.db")
		status, stdout, stderr := runShortener(t, "--listen-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--database-url=sqlite:"+database, "--block-hosts-file="+path)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "BLOCK_HOSTS_FILE") || !strings.Contains(stderr, path) ||
			!strings.Contains(stderr, reason) {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q; want 2 and one line with %s", path, status, stdout, stderr, reason)
		}
		if _, err := os.Stat(database); err == nil {
			t.Errorf("%s: the server opened its database before it refused the setting", path)
		}
	}
}

// A server refuses each URL that leads to one of its own names, in every spelling. Without OWN_HOSTS and BASE_URL, the server
// knows only the name in the request.
func TestServerRefusesURLsOfOwnHosts(t *testing.T) {
	t.Parallel()
	plain := start(t, settings(t, sqliteURL(t), ""))
	named := start(t, settings(t, sqliteURL(t), "", "--own-hosts=go.example,Bücher.example,localhost"))
	for _, url := range []string{
		"https://go.example/", "http://GO.EXAMPLE.:8080/x", "https://xn--bcher-kva.example", "http://localhost:1/",
	} {
		plain.shorten(url)
		a := named.postURL(url)
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "lead back to this service") {
			t.Errorf("POST /shorten with %s: %+v", url, a)
		}
	}
	named.shorten("https://www.go.example/")
	_, port, _ := strings.Cut(plain.Addr().String(), ":")
	for _, host := range []string{"127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"} {
		a := plain.do(http.MethodPost, "http://"+plain.Addr().String()+"/shorten", "url=http://"+host+":"+port+"/")
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "lead back to this service") {
			t.Errorf("POST /shorten with the host %s: %+v", host, a)
		}
	}
}

func TestServerAppliesHomeNotFoundAndReportURLs(t *testing.T) {
	t.Parallel()
	r := start(t, settings(t, sqliteURL(t), "", "--home-url=https://bücher.example/about", "--not-found-url=https://example.com/404",
		"--report-url=mailto:abuse@example.com"))
	code := r.shorten("https://go.dev/")
	for path, want := range map[string]answer{
		"/":              {status: http.StatusFound, header: http.Header{"Location": {"https://xn--bcher-kva.example/about"}}},
		"/unknown":       {status: http.StatusFound, header: http.Header{"Location": {"https://example.com/404"}}},
		"/" + code:       {status: http.StatusFound, header: http.Header{"Location": {"https://go.dev/"}}},
		"/" + code + "+": {status: http.StatusOK, body: `href="mailto:abuse@example.com?body=http:%2F%2F127.0.0.1`},
	} {
		got := r.browse(path)
		if got.status != want.status || got.header.Get("Location") != want.header.Get("Location") || !strings.Contains(got.body, want.body) {
			t.Errorf("GET %s: %+v, want %+v", path, got, want)
		}
	}
	r.wantStatus("unknown", http.StatusNotFound, "") // to a client that is not a browser
}

// browse requests a path with the Accept header of a browser.
func (r *running) browse(path string) answer {
	r.t.Helper()
	r.client.Transport = acceptHTML{r.client.Transport}
	defer func() { r.client.Transport = r.client.Transport.(acceptHTML).next }()
	return r.do(http.MethodGet, "http://"+r.Addr().String()+path, "")
}

// acceptHTML is a transport that asks for HTML.
type acceptHTML struct{ next http.RoundTripper }

func (a acceptHTML) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Accept", "text/html,*/*;q=0.8")
	return a.next.RoundTrip(req)
}
