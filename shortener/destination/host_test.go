package destination

import (
	"net/netip"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"pgregory.net/rapid"
)

// All spellings in one row of the table lead to the same host. Spellings in different rows lead to different hosts.
func TestParseHostReturnsOneHostForAllItsSpellings(t *testing.T) {
	t.Parallel()
	seen := make(map[Host]string)
	for _, spellings := range [][]string{
		{"s.example", "S.Example", "s.example.", "S.EXAMPLE.", "ｓ.example", "s。example", "s.exa\u00admple"},
		{"bücher.example", "Bücher.Example", "xn--bcher-kva.example", "XN--BCHER-KVA.example."},
		{
			"127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001", "0X7F.1", "0177.0.0.1", "017700000001",
			"0x7f.0.0x0.01", "0x7f.0x.0.1", "00000000000000000000000177.0.0.1", "127.0.0.0x01", "127。0。0。1", "１２７.0.0.1",
			"[::ffff:127.0.0.1]", "[::FFFF:7F00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "::ffff:7f00:1",
		},
		{"[::1]", "::1", "[0:0::1]", "[0000:0000:0000:0000:0000:0000:0000:0001]"},
		{"0.0.0.0", "0", "0x", "00"},
		{"255.255.255.255", "4294967295", "0xffffffff", "255.16777215"},
		{"127.0.0.1.example"},
		{"0x7f.example"},
		{"1e3.0x7g"},
	} {
		want, ok := ParseHost(spellings[0])
		if !ok || seen[want] != "" {
			t.Errorf("ParseHost(%q) = %v, %v, like %q; want another host", spellings[0], want, ok, seen[want])
		}
		seen[want] = spellings[0]
		for _, spelling := range spellings {
			if got, ok := ParseHost(spelling); !ok || got != want {
				t.Errorf("ParseHost(%q) = %v, %v; want %v", spelling, got, ok, want)
			}
		}
	}
}

func TestParseHostRefusesInvalidHosts(t *testing.T) {
	t.Parallel()
	for _, spelling := range []string{
		"", ".", "a..b", "s.example:80", "https://s.example", "s.example/", "s example", "10.0.0.0/8", "user@s.example", "%73.example",
		"256.0.0.1", "127.0.0.256", "1.2.3.4.5", "4294967296", "0x100000000", "127.0.0.08", "example.7", "example.0x1",
		"[::1", "[127.0.0.1]", "[::1]:80", "::1%eth0", "fe80::1%1", "\xff.example", strings.Repeat("a", 64) + ".example",
	} {
		if h, ok := ParseHost(spelling); ok {
			t.Errorf("ParseHost(%q) = %v, want an error", spelling, h)
		}
	}
}

// TestHostParsingFollowsURLStandard compares this package with another implementation of the URL standard, which browsers follow.
func TestHostParsingFollowsURLStandard(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{
		"0", "1", "7", "8", "255", "256", "65535", "65536", "16777216", "4294967295", "4294967296", "0x", "0X", "x", "f", "FF", "09", "010", ".", ".", ".",
		"example", "EXAMPLE",
	})
	rapid.Check(t, func(t *rapid.T) {
		spelling := strings.Join(rapid.SliceOfN(piece, 1, 9).Draw(t, "pieces"), "")
		if !validHost(spelling) {
			t.Skip("no link has this host")
		}
		got := hostOf(spelling)
		u, err := whatwg.Parse("http://" + spelling)
		if err != nil { // the standard refuses a name whose last label is a number, unless the name is an IPv4 address
			if got.ip.IsValid() {
				t.Fatalf("hostOf(%q) = %v; the standard refuses the name: %v", spelling, got, err)
			}
			return
		}
		want := Host{name: strings.TrimSuffix(u.Hostname(), ".")}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
			want = Host{ip: ip}
		}
		if got != want {
			t.Fatalf("hostOf(%q) = %v; the standard reads %v", spelling, got, want)
		}
	})
}

func TestHostOfReturnsHostOfURL(t *testing.T) {
	t.Parallel()
	name, _ := ParseHost("go.dev")
	ip, _ := ParseHost("::1")
	for url, want := range map[string]Host{
		"https://go.dev":               name,
		"HTTPS://Go.Dev.:443/x":        name,
		"http://go.dev?u=http://x.y/":  name,
		"http://go.dev:#x":             name,
		"http://[0::1]:8080/a:b@c":     ip,
		"https://":                     {},
		"":                             {},
		"http://other.example/go.dev/": {name: "other.example"},
	} {
		if got := HostOf(url); got != want {
			t.Errorf("HostOf(%q) = %v, want %v", url, got, want)
		}
	}
}

// HostOf must not panic, because a row that another program wrote may have any URL.
func TestHostOfDoesNotPanicForAnyText(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"http", "://", "[", "]", ":", "/", ".", "0x", "1", "@", "#", "é", ""})
	rapid.Check(t, func(t *rapid.T) {
		HostOf("http://" + strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), ""))
		HostOf(strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), ""))
	})
}

func newHosts(t testing.TB, spellings ...string) *Hosts {
	t.Helper()
	set := &Hosts{}
	for _, spelling := range spellings {
		if !set.Add(spelling) {
			t.Fatalf("Add(%q) refuses the host", spelling)
		}
	}
	return set
}

func TestHostSetCoversItsHostsAndTheirSubdomains(t *testing.T) {
	t.Parallel()
	set := newHosts(t, "evil.example", "Bücher.example.", "192.0.2.7", "2001:db8::1", "blocked")
	for spelling, want := range map[string]bool{
		"evil.example": true, "www.evil.example": true, "a.b.c.EVIL.example.": true, "xn--bcher-kva.example": true, "x.blocked": true,
		"notevil.example": false, "example": false, "evil.example.org": false, "evil.exampl": false, "x.xblocked": false,
		"192.0.2.7": true, "3221225991": true, "0xc0.0.0x207": true, "::ffff:192.0.2.7": true, "[2001:DB8:0::1]": true,
		"192.0.2.8": false, "2001:db8::2": false, "7": false, "0.2.7": false, "192.0.2.7.example": false,
	} {
		h, ok := ParseHost(spelling)
		if got := set.covers(h); !ok || got != want {
			t.Errorf("covers(%q) = %v, valid %v; want %v", spelling, got, ok, want)
		}
	}
	if set.Len() != 5 || (*Hosts)(nil).Len() != 0 {
		t.Errorf("Len() = %d and %d for nil, want 5 and 0", set.Len(), (*Hosts)(nil).Len())
	}
}
