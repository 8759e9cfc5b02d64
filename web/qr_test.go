package web

import (
	"fmt"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"keypool/web/internal/reply"
)

// scanPNG decodes a QR code with zbarimg.
func scanPNG(t *testing.T, image string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "code.png")
	if err := os.WriteFile(file, []byte(image), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "zbarimg", "--quiet", "--raw", file).Output()
	if err != nil {
		t.Fatalf("zbarimg (apt-get install zbar-tools) reads %q: %v", out, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func TestQRContainsShortURL(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	a := s.shorten(t, `{"url":"https://go.dev"}`)
	for query, size := range map[string]int{
		"": 256, "?size=64": 64, "?size=333&ec=L&margin=0": 333, "?ec=Q": 256, "?size=512&ec=H&margin=16": 512, "?size=2048&ec=H": 2048,
	} {
		r := s.do(t, http.MethodGet, "/"+a.Code+".png"+query, "")
		image, err := png.Decode(strings.NewReader(r.body))
		if err != nil {
			t.Fatalf("%s: status %d: %v", query, r.status, err)
		}
		if b := image.Bounds(); b.Dx() != size || b.Dy() != size {
			t.Errorf("%s: the image is %d x %d pixels, want %d", query, b.Dx(), b.Dy(), size)
		}
		if query == "?size=333&ec=L&margin=0" {
			continue // a reader cannot decode a QR code without a margin
		}
		if got := scanPNG(t, r.body); got != a.ShortURL {
			t.Errorf("%s: the QR code contains %q, want %q", query, got, a.ShortURL)
		}
	}
}

// The QR code contains the origin of BASE_URL, and not the origin of the request.
func TestQRCodeContainsOriginOfBaseURL(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.BaseURL = "https://sho.rt" })
	a := s.shorten(t, `{"url":"https://go.dev"}`)
	r := s.do(t, http.MethodGet, "/"+a.Code+".png", "")
	if got := scanPNG(t, r.body); got != "https://sho.rt/"+a.Code {
		t.Errorf("the QR code contains %q", got)
	}
}

func TestQRCodeAnswersHaveSecurityAndCacheHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	lasting, brief := s.shorten(t, `{"url":"https://go.dev"}`), s.shorten(t, `{"url":"https://go.dev","expires_in":60}`)
	for suffix, media := range map[string]string{".svg": "image/svg+xml", ".png": "image/png"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := s.do(t, method, "/"+lasting.Code+suffix, "")
			if r.status != http.StatusOK || r.header.Get("Content-Type") != media || r.header.Get("Cache-Control") != "public, max-age=3600" {
				t.Errorf("%s of %s: status %d (want 200), header %v", method, suffix, r.status, r.header)
			}
			if r.header.Get("Content-Security-Policy") != "default-src 'none'" || r.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s of %s: the header is %v", method, suffix, r.header)
			}
			if (r.body == "") != (method == http.MethodHead) {
				t.Errorf("%s of %s has %d bytes", method, suffix, len(r.body))
			}
		}
		r := s.do(t, http.MethodGet, "/"+brief.Code+suffix, "")
		age, err := strconv.Atoi(strings.TrimPrefix(r.header.Get("Cache-Control"), "public, max-age="))
		if err != nil || age > 60 || age < 40 {
			t.Errorf("a link that expires in 60 s: Cache-Control is %q", r.header.Get("Cache-Control"))
		}
	}
}

// The answer names a parameter that is not acceptable, and says what is accepted.
func TestQRRefusesBadParameters(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *PublicConfig) { c.BaseURL = "https://" + strings.Repeat("a.", 126) + "b" })
	a := s.shorten(t, `{"url":"https://go.dev"}`)
	for query, detail := range map[string]string{
		"size=63":           "The parameter size must be a whole number from 64 to 2048.",
		"size=2049":         "The parameter size must be a whole number from 64 to 2048.",
		"size=1e3":          "The parameter size must be a whole number from 64 to 2048.",
		"size=":             "The parameter size must be a whole number from 64 to 2048.",
		"size=-9":           "The parameter size must be a whole number from 64 to 2048.",
		"size=%2B100":       "The parameter size must be a whole number from 64 to 2048.",
		"size=0100":         "The parameter size must be a whole number from 64 to 2048.",
		"margin=%2B4":       "The parameter margin must be a whole number from 0 to 16.",
		"margin=-0":         "The parameter margin must be a whole number from 0 to 16.",
		"ec=m":              "The parameter ec must be L, M, Q or H.",
		"margin=17":         "The parameter margin must be a whole number from 0 to 16.",
		"margin=-1":         "The parameter margin must be a whole number from 0 to 16.",
		"colour=red":        `There is no parameter "colour". A QR code has the parameters size, ec and margin.`,
		"size=64&size=65":   `The parameter "size" occurs twice.`,
		"size=%zz":          "The query of the URL is malformed: invalid URL escape \"%zz\".",
		"size=64&margin=16": "The parameter size must be at least 97 for this link with ec M and margin 16.",
	} {
		r := s.do(t, http.MethodGet, "/"+a.Code+".png?"+query, "")
		if p := decode[reply.Problem](t, r.body); r.status != http.StatusBadRequest || p.Type != reply.TypePrefix+"malformed" || p.Detail != detail {
			t.Errorf("%s: status %d (want 400), %s", query, r.status, r.body)
		}
	}
	if r := s.do(t, http.MethodGet, "/"+a.Code+".svg?size=64&margin=16", ""); r.status != http.StatusOK {
		t.Errorf("an SVG of any size: status %d (want 200), %s", r.status, r.body)
	}
}

func TestQRCodeOfUnknownOrGoneCodeIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.insert(t, expired("old"))
	for path, status := range map[string]int{
		"/unknown.svg": 404, "/unknown.png": 404, "/.svg": 404, "/.png": 404, "/old.svg": 410, "/old.png": 410, "/old.gif": 404, "/old.svg+": 404, "/old.SVG": 404,
	} {
		if r := s.do(t, http.MethodGet, path, ""); r.status != status || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: status %d, want %d", path, r.status, status)
		}
	}
	if r := s.do(t, http.MethodGet, "/unknown.svg", "", "Host", "a,b"); r.status != http.StatusBadRequest {
		t.Errorf("a request with an invalid Host has status %d (want 400): %s", r.status, r.body)
	}
}

// A request for the QR code of an unknown code is a miss.
func TestQRRequestsForUnknownCodesCountAsMisses(t *testing.T) {
	withClockStopped(t, func(t *testing.T) {
		s := newSite(t, nil)
		last := 0
		for i := range 100 * missBurst {
			if last = s.do(t, http.MethodGet, fmt.Sprintf("/no%d.png", i), "").status; last != http.StatusNotFound {
				break
			}
		}
		if last != http.StatusTooManyRequests {
			t.Errorf("the last request of a scan has status %d, want 429", last)
		}
	})
}

func TestQRRequestIsNotAVisit(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	a := s.shorten(t, `{"url":"https://go.dev"}`)
	s.insert(t, expired("old"))
	for _, path := range []string{"/" + a.Code, "/unknown", "/old"} {
		s.do(t, http.MethodGet, path+".svg", "")
		s.do(t, http.MethodGet, path+".png", "")
	}
	const none = `
		# HELP shortener_redirects_total GET requests for short URLs by result: found, missing or gone. Requests answered with 429 or 503 are in no result. HEAD requests and previews are not counted.
		# TYPE shortener_redirects_total counter
		shortener_redirects_total{result="found"} 0
		shortener_redirects_total{result="gone"} 0
		shortener_redirects_total{result="missing"} 0
	`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(none), "shortener_redirects_total"); err != nil {
		t.Error(err)
	}
	assertNoLabel(t, s, a.Code)
	assertNoLabel(t, s, "unknown")
}
