package service_test

import (
	"errors"
	"testing"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/service"
)

func hosts(t *testing.T, spellings ...string) *destination.Hosts {
	t.Helper()
	set := &destination.Hosts{}
	for _, spelling := range spellings {
		if !set.Add(spelling) {
			t.Fatalf("Add(%q) refuses the host", spelling)
		}
	}
	return set
}

func TestCreateRefusesURLsOfBlockedHosts(t *testing.T) {
	t.Parallel()
	s, _ := newService(t, sequence("k"))
	s.Block(hosts(t, "evil.example", "192.0.2.7"))
	for _, url := range []string{
		"https://evil.example", "HTTPS://WWW.Evil.Example.:8443/x?y#z", "https://ｅｖｉｌ.example/", "http://192.0.2.7/",
		"http://0xC0.0.519:80/", "http://[::ffff:c000:207]/",
	} {
		alias := "alias"
		for _, r := range []shortener.Request{{URL: url}, {URL: url, Alias: &alias}} {
			if link, _, err := s.Create(t.Context(), r); !errors.Is(err, destination.ErrBlocked) {
				t.Errorf("Create(%q) = %v, %v; want destination.ErrBlocked", url, link, err)
			}
		}
	}
	mustCreate(t, s, shortener.Request{URL: "https://notevil.example/?u=https://evil.example/"})
}

// A link does not resolve while its host is blocked, and resolves again afterwards. This holds for
// links in the cache and for links that only the store has.
func TestLinksDoNotResolveWhileTheirHostIsBlocked(t *testing.T) {
	t.Parallel()
	s, store := newService(t, sequence("k"))
	other := startService(t, service.Config{Store: store, Keys: sequence("o")})
	evil := mustCreate(t, s, shortener.Request{URL: "https://www.Evil.example:8443/x"})
	good := mustCreate(t, s, shortener.Request{URL: "https://good.example/"})
	for range 2 {
		for _, service := range []*service.Service{s, other} {
			service.Block(hosts(t, "evil.example"))
			assertFails(t, service, evil.Code, shortener.ErrLinkBlocked)
			assertFails(t, service, evil.Code, shortener.ErrGone)
			assertResolves(t, service, good)
			service.Block(&destination.Hosts{})
			assertResolves(t, service, evil)
		}
	}
	s.Block(hosts(t, "evil.example"))
	s.Block(nil)
	assertResolves(t, s, evil)
}

// A URL must not lead to the origin of this service. It must not lead to another host name of this service either,
// whatever the port.
func TestCreateRefusesURLsOfServiceItself(t *testing.T) {
	t.Parallel()
	s := startService(t, service.Config{
		Store: newStore(t), Keys: sequence("k"), OwnHosts: hosts(t, "go.example", "bücher.example", "192.0.2.1", "2001:db8::1"),
	})
	self, _ := destination.ParseOrigin("https://s.example")
	for _, url := range []string{
		"https://s.example/a", "https://go.example/a", "HTTP://GO.Example.:443/a", "http://go.example:8080/a", "https://ｇｏ。example",
		"https://BÜCHER.example/", "https://XN--bcher-kva.example/", "http://192.0.2.1/", "http://3221225985/", "http://0300.0.513/",
		"http://[::ffff:192.0.2.1]:9/", "http://[2001:db8:0:0::1]/",
	} {
		_, _, err := s.Create(t.Context(), shortener.Request{URL: url, Self: self})
		assertInvalid(t, err, "url", "lead back to this service")
	}
	for _, url := range []string{"https://www.go.example/a", "https://go.example.org/", "https://192.0.2.2/"} {
		mustCreate(t, s, shortener.Request{URL: url, Self: self})
	}
}
