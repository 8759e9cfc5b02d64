package destination

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// testSelf returns the origin of the service in these tests.
func testSelf() Origin {
	o, _ := ParseOrigin("https://s.example")
	return o
}

func TestNormalizeKeepsValidURLs(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"https://go.dev",
		"https://go.dev/",
		"http://go.dev:80/",
		"https://go.dev:443/",
		"https://go.dev:",
		"https://go.dev:08443/",
		"HTTPS://Go.Dev/Path",
		"https://go.dev./x",
		"https://my_host.example/",
		"https://xn--bcher-kva.example/",
		"http://192.0.2.7:8080/a",
		"http://192.0.2.7./",
		"http://0x7f.1/",
		"http://[2001:DB8::1]:8080/a",
		"http://[::ffff:192.0.2.7]/",
		"http://localhost/",
		"https://go.dev/a/../b/./c//d",
		"https://go.dev?",
		"https://go.dev/?b=2&a=1&b=1&&=",
		"https://go.dev/?a[]=1&b[x]=2",
		"https://go.dev/%2f%2F%c3%A9%00%0a",
		"https://go.dev/a+b,c;d=e:f@g!h$i'j(k)l*m~n",
		"https://go.dev/#",
		"https://go.dev/#a?b/c",
		"https://go.dev/#one#two",
		"https://go.dev/http://other.example/x",
		"https://go.dev/?next=https://other.example@x",
	} {
		got, err := normalize(raw, testSelf())
		if err != nil || got != raw {
			t.Errorf("normalize(%q) = %q, %v; want the same URL", raw, got, err)
		}
	}
}

func TestNormalizeEncodesCharactersAndTrimsSpace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, raw, want string }{
		{"white space around the URL", " \t\r\nhttps://go.dev/a \n", "https://go.dev/a"},
		{"Unicode white space around the URL", "\u00a0https://go.dev/a\u2003", "https://go.dev/a"},
		{"space in the URL", "https://go.dev/a b?c d#e f", "https://go.dev/a%20b?c%20d#e%20f"},
		{"delimiters", "https://go.dev/\"<>^`{|}", "https://go.dev/%22%3C%3E%5E%60%7B%7C%7D"},
		{"characters that are not ASCII", "https://go.dev/é?ü=ß#日", "https://go.dev/%C3%A9?%C3%BC=%C3%9F#%E6%97%A5"},
		{"byte that is not UTF-8", "https://go.dev/caf\xe9", "https://go.dev/caf%E9"},
		{"characters that are encoded already", "https://go.dev/%c3%a9/é", "https://go.dev/%c3%a9/%C3%A9"},
		{"host that is not ASCII", "https://Bücher.Example:443/A", "https://xn--bcher-kva.example:443/A"},
		{"ideographic dot", "https://日本語。jp/", "https://xn--wgv71a119e.jp/"},
		{"sharp s", "https://straße.example/", "https://xn--strae-oqa.example/"},
		{"full-width host", "https://ｇｏ.ｄｅｖ/", "https://go.dev/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := normalize(test.raw, testSelf())
			if err != nil || got != test.want {
				t.Errorf("normalize(%q) = %q, %v; want %q", test.raw, got, err, test.want)
			}
		})
	}
}

func TestNormalizeRefusesInvalidURLs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, raw, reason string }{
		{"empty", "", "absolute"},
		{"only space", " \t ", "absolute"},
		{"no scheme", "go.dev/a", "absolute"},
		{"relative", "/a", "absolute"},
		{"scheme-relative", "//go.dev/a", "absolute"},
		{"ftp", "ftp://go.dev/a", "absolute"},
		{"javascript", "javascript://go.dev/%0aalert(1)", "absolute"},
		{"data", "data:text/html,x", "absolute"},
		{"one slash", "https:/go.dev", "absolute"},
		{"no slashes", "https:go.dev", "absolute"},
		{"scheme with a long s", "http\u017f://go.dev", "absolute"},
		{"no host", "https://", "have a host"},
		{"path without host", "https:///a", "have a host"},
		{"query without host", "https://?a", "have a host"},
		{"fragment without host", "https://#a", "have a host"},
		{"port without host", "https://:443/", "have a host"},
		{"user", "https://me@go.dev/", "user information"},
		{"user and password", "https://me:secret@go.dev/", "user information"},
		{"host as user", "https://bank.example@evil.example/", "user information"},
		{"empty user", "https://@go.dev/", "user information"},
		{"line feed", "https://go.dev/a\nb", "control"},
		{"carriage return in host", "https://go\r.dev/", "control"},
		{"tab", "https://go.dev/a\tb", "control"},
		{"NUL", "https://go.dev/\x00", "control"},
		{"DEL", "https://go.dev/\x7f", "control"},
		{"C1 control", "https://go.dev/a\u0085b", "control"},
		{"backslash", `https://go.dev\@evil.example/`, "backslash"},
		{"backslash in the query", `https://go.dev/?a\b`, "backslash"},
		{"percent at the end", "https://go.dev/100%", "percent"},
		{"percent and one digit", "https://go.dev/%2", "percent"},
		{"percent and no digits", "https://go.dev/%zz", "percent"},
		{"percent in the query", "https://go.dev/?discount=5%&x", "percent"},
		{"percent in the fragment", "https://go.dev/#5%", "percent"},
		{"percent in the host", "https://go%2edev/", "host made of"},
		{"port too high", "https://go.dev:65536/", "port"},
		{"port far too high", "https://go.dev:99999999999999999999/", "port"},
		{"port 0", "https://go.dev:0/", "port"},
		{"port with a sign", "https://go.dev:+80/", "port"},
		{"port in letters", "https://go.dev:http/", "port"},
		{"two ports", "https://go.dev:80:80/", "port"},
		{"IPv6 without brackets", "https://2001:db8::1/", "port"},
		{"host name in brackets", "https://[go.dev]/", "IPv6"},
		{"IPv4 in brackets", "https://[192.0.2.7]/", "IPv6"},
		{"brackets not closed", "https://[::1/", "port"},
		{"text after the bracket", "https://[::1]x/", "IPv6"},
		{"zone", "https://[fe80::1%25eth0]/", "IPv6"},
		{"space in the host", "https://go .dev/", "host made of"},
		{"quote in the host", `https://go".dev/`, "host made of"},
		{"empty label", "https://go..dev/", "host made of"},
		{"leading dot", "https://.dev/", "host made of"},
		{"only a dot", "https://./", "host made of"},
		{"long label", "https://" + strings.Repeat("a", 64) + ".dev/", "host made of"},
		{"long host", "https://" + strings.Repeat("a.", 127) + "dev/", "host made of"},
		{"part of an IPv4 address too high", "https://256.1.1.1/", "valid IPv4 address"},
		{"number as the last label", "https://example.7./", "valid IPv4 address"},
		{"host not UTF-8", "https://caf\xe9.example/", "internationalized"},
		{"replacement character in the host", "https://caf\ufffd.example/", "internationalized"},
		{"host of disallowed characters", "https://go\u2028dev/", "internationalized"},
		{"full-width at sign", "https://bank.example＠evil.example/", "internationalized"},
		{"full-width slash", "https://go.dev／evil.example/", "internationalized"},
		{"soft hyphen alone", "https://\u00ad/", "host made of"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := normalize(test.raw, testSelf())
			assertInvalid(t, err, test.reason)
			if got != "" {
				t.Errorf("returned %q with the error", got)
			}
		})
	}
}

func TestNormalizeLimitsLengthOfStoredURL(t *testing.T) {
	t.Parallel()
	const base = "https://go.dev/"
	fits := base + strings.Repeat("a", maxURL-len(base))
	for _, test := range []struct {
		name, raw string
		ok        bool
	}{
		{"exactly the maximum length", fits, true},
		{"maximum length without the surrounding space", "  " + fits + "\n", true},
		{"one byte too long", fits + "a", false},
		{"maximum length after the space at the end is removed", fits[:maxURL-1] + " ", true},
		{"too long after the encoding", base + " " + fits[:maxURL-len(base)-2] + "b", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := normalize(test.raw, testSelf())
			if test.ok && (err != nil || len(got) > maxURL) {
				t.Errorf("the normalized URL has %d bytes, error %v", len(got), err)
			}
			if !test.ok {
				assertInvalid(t, err, "at most 2048 bytes")
			}
		})
	}
}

func TestNormalizeRefusesURLsOfServiceItself(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		raw, self string
		refused   bool
	}{
		{"https://s.example/a", "https://s.example", true},
		{"HTTPS://S.EXAMPLE/a", "https://s.example", true},
		{"https://s.example:443/a", "https://s.example", true},
		{"https://s.example:0443/a", "https://s.example", true},
		{"https://s.example:/a", "https://s.example", true},
		{"https://s.example./a", "https://s.example", true},
		{"https://s.example", "HTTPS://S.Example.:443", true},
		{"http://s.example/a", "https://s.example", true}, // each URL has the default port of its scheme
		{"http://s.example:443/a", "https://s.example", true},
		{"http://s.example:80/a", "http://s.example", true},
		{"http://localhost:8080/a", "http://localhost:8080", true},
		{"https://localhost:8080/a", "http://localhost:8080", true},
		{"https://bücher.example/", "https://xn--bcher-kva.example", true},
		{"https://XN--bcher-kva.example/", "https://Bücher.example", true},
		{"http://[0:0::1]:8080/", "http://[::1]:8080", true},
		{"http://[::ffff:127.0.0.1]:8080/", "http://127.0.0.1:8080", true},
		{"http://0177.1:8080/", "http://127.0.0.1:8080", true},
		{"http://2130706433:8080/", "http://[::ffff:7f00:1]:8080", true},
		{"http://127.0.0.1.:8080/", "http://0x7f.0.0.1:8080", true},
		{"http://１２７。0.0.1:8080/", "http://127.0.0.1:8080", true},
		{"http://127.0.0.2:8080/", "http://127.0.0.1:8080", false},
		{"https://s.example:8443/a", "https://s.example", false},
		{"http://localhost:8081/a", "http://localhost:8080", false},
		{"https://www.s.example/a", "https://s.example", false},
		{"https://s.example.org/a", "https://s.example", false},
		{"https://go.dev/?u=https://s.example/", "https://s.example", false},
		{"https://s.example/a", "", false},
		{"https://s.example/a", "https://", false},
	} {
		self, ok := ParseOrigin(test.self)
		if !ok && test.refused {
			t.Errorf("ParseOrigin(%q) failed", test.self)
		}
		_, err := normalize(test.raw, self)
		if test.refused {
			assertInvalid(t, err, "lead back to this service")
		} else if err != nil {
			t.Errorf("normalize(%q, %q): %v", test.raw, test.self, err)
		}
	}
}

// A long host must be refused before its conversion. The conversion of 5,000 different Chinese
// characters to punycode would take 0.2 s of processor time.
func TestNormalizeRefusesLongHostBeforePunycode(t *testing.T) {
	t.Parallel()
	var host strings.Builder
	for r := range rune(5000) {
		host.WriteRune('\u4e00' + r)
	}
	_, err := normalize("https://"+host.String()+".example/", testSelf())
	assertInvalid(t, err, "at most 253 characters")
	if got, err := normalize("https://"+strings.Repeat("字", 10)+".example/", testSelf()); err != nil {
		t.Errorf("a host of ten characters: %q, %v", got, err)
	}
}

// The maximum length of a host includes its combining characters. The message must say so, because the same host may be valid
// without combining characters.
func TestLongHostMessageMentionsCombiningCharacters(t *testing.T) {
	t.Parallel()
	composed := "https://" + strings.Repeat(strings.Repeat("\u00e9", 20)+".", 7) + "example/"
	if got, err := normalize(composed, testSelf()); err != nil {
		t.Errorf("a host without combining characters: %q, %v", got, err)
	}
	_, err := normalize(strings.ReplaceAll(composed, "\u00e9", "e\u0301"), testSelf())
	assertInvalid(t, err, "including combining and invisible characters")
}

func TestNormalizedURLIsStableASCIIAndParsesToSameHost(t *testing.T) {
	t.Parallel()
	// Each piece triggers a rule of normalize. Combinations of the pieces are often valid URLs.
	piece := rapid.SampledFrom([]string{
		"http://", "https://", "HTTP://", "go.dev", "bücher.example", "[::1]", ":", "8080", "/", "?", "#", "%", "%2f", "é", " ",
		"\"", "[", "]", "@", "\\", "..", "a", "Z", "\x80", "\u0085", "\n", "=", "&", "。", "xn--", "{", "\x7f", "\u200d", "-",
	})
	start := rapid.SampledFrom([]string{"https://go.dev/", "http://bücher.example:", "http://", ""})
	rapid.Check(t, func(t *rapid.T) {
		raw := start.Draw(t, "start") + strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "")
		checkNormalized(t, raw)
	})
}

func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"https://go.dev/a b", "http://Bücher.example:80/é#ü", "https://[::1]:443/?a[]=%2f", "https://go.dev./\xff",
		"http://a@b", `http://a\b`, "https://xn--a/", "http://0x7f.1/", "https://日本語。jp", "http://a:65536",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkNormalized(t, raw) })
}

// checkNormalized normalizes raw. If normalize accepts raw, it checks the properties of the result.
func checkNormalized(t rapid.TB, raw string) {
	got, err := normalize(raw, testSelf())
	if err != nil {
		if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Reason == "" || got != "" {
			t.Fatalf("normalize(%q) = %q, %v; want only an InvalidError", raw, got, err)
		}
		return
	}
	again, err := normalize(got, testSelf())
	if err != nil || again != got {
		t.Fatalf("normalize(%q) = %q, but a second call returned %q, %v", raw, got, again, err)
	}
	if len(got) > maxURL || strings.ContainsFunc(got, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		t.Fatalf("normalize(%q) = %q, which is too long or not printable ASCII", raw, got)
	}
	u, err := url.Parse(got)
	if err != nil {
		t.Fatalf("normalize(%q) = %q, which net/url cannot parse: %v", raw, got, err)
	}
	_, authority, _, _ := splitURL(got)
	if u.Host != authority || u.User != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		t.Fatalf("normalize(%q) = %q, in which net/url finds another host: %#v", raw, got, u)
	}
}

func assertInvalid(t *testing.T, err error, reason string) {
	t.Helper()
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok || !strings.Contains(invalid.Reason, reason) {
		t.Errorf("error %v, want an InvalidError with %q", err, reason)
	}
}

func TestParseOriginRefusesInvalidOrigins(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{ // want "" for an invalid origin
		{"https://s.example", "https://s.example"},
		{"http://S.example:8080", "http://S.example:8080"},
		{"http://[::1]:8080", "http://[::1]:8080"},
		{"https://bücher.example:8443", "https://xn--bcher-kva.example:8443"},
		{"https://s.example/", ""},
		{"https://s.example/path", ""},
		{"https://s.example?q", ""},
		{"https://me@s.example", ""},
		{"https://s.example:0", ""},
		{"https://", ""},
		{"ftp://s.example", ""},
		{"s.example", ""},
		{"", ""},
	} {
		got, ok := ParseOrigin(test.text)
		if got.String() != test.want || ok != (test.want != "") {
			t.Errorf("ParseOrigin(%q) = %q, %v; want %q", test.text, got, ok, test.want)
		}
	}
}
