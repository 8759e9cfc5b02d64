package shortener

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener/destination"
)

func importTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func TestImportRefusesLinksWithInvalidMembers(t *testing.T) {
	t.Parallel()
	self, ok := destination.ParseOrigin("https://go.example")
	if !ok {
		t.Fatal("the origin is invalid")
	}
	hosts := new(destination.Hosts)
	hosts.Add("www.go.example")
	rules := ImportRules{Self: self, OwnHosts: hosts, Now: importTime()}
	created := time.Date(2010, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 3600))
	valid := func() Link {
		return Link{Code: strings.Repeat("x", 64), URL: "https://example.com/ä", CreatedAt: created, Details: &Details{Version: 1, Redirect: 302, Forward: ForwardNone}}
	}
	got, err := rules.Check(valid())
	want := Link{Code: strings.Repeat("x", 64), URL: "https://example.com/%C3%A4", Source: SourceImport, CreatedAt: created.UTC().Truncate(time.Microsecond)}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Check: %v (-want +got):\n%s", err, diff)
	}
	for field, change := range map[string]func(*Link){
		"code must be 1 to 64":                                  func(l *Link) { l.Code += "x" },
		"code must contain only":                                func(l *Link) { l.Code = "a.b" },
		"code is reserved":                                      func(l *Link) { l.Code = "Status" },
		"url must be an absolute":                               func(l *Link) { l.URL = "mailto:a@example.com" },
		"url must not lead back":                                func(l *Link) { l.URL = "http://go.example/x" },
		"url must not lead":                                     func(l *Link) { l.URL = "http://www.go.example:81/x" },
		"url must be at most 2048":                              func(l *Link) { l.URL += strings.Repeat("x", 2048) },
		"created_at must be a time":                             func(l *Link) { l.CreatedAt = time.Time{} },
		"expires_at must be a time in":                          func(l *Link) { l.ExpiresAt = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) },
		"deleted_at must be a time":                             func(l *Link) { l.DeletedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"changed_at must be a time":                             func(l *Link) { l.Details.ChangedAt = time.Unix(-1, 0) },
		"url_changed_at must be a time":                         func(l *Link) { l.Details.URLChangedAt = time.Unix(-1, 0) },
		"created_at must be at most 24 hours in the future":     func(l *Link) { l.CreatedAt = importTime().Add(24*time.Hour + time.Microsecond) },
		"deleted_at must be at most 24 hours in the future":     func(l *Link) { l.DeletedAt = importTime().Add(25 * time.Hour) },
		"changed_at must be at most 24 hours in the future":     func(l *Link) { l.Details.ChangedAt = importTime().Add(25 * time.Hour) },
		"url_changed_at must be at most 24 hours in the future": func(l *Link) { l.Details.URLChangedAt = importTime().Add(25 * time.Hour) },
		"expires_at must be at most 24 hours before":            func(l *Link) { l.ExpiresAt = l.CreatedAt.Add(-25 * time.Hour) },
		"deleted_at must be at most 24 hours before":            func(l *Link) { l.DeletedAt = l.CreatedAt.Add(-25 * time.Hour) },
		"changed_at must be at most 24 hours before":            func(l *Link) { l.Details.ChangedAt = l.CreatedAt.Add(-25 * time.Hour) },
		"first_url must be absent":                              func(l *Link) { l.Details.FirstURL = l.URL },
		"url_changed_at must be absent":                         func(l *Link) { l.Details.URLChangedAt = l.CreatedAt },
		"tags must not contain a tag twice":                     func(l *Link) { l.Details.Tags = []string{"a", "b", "a"} },
		"version must be 1 to 9007199254740992":                 func(l *Link) { l.Details.Version = 0 },
		"first_url must have a host":                            func(l *Link) { l.Details.FirstURL = "https:///" },
		"title must have at most 200":                           func(l *Link) { l.Details.Title = strings.Repeat("x", 201) },
		"tags must be tags of 1 to 32":                          func(l *Link) { l.Details.Tags = []string{"a|b"} },
		"redirect must be 301":                                  func(l *Link) { l.Details.Redirect = 303 },
		"editable must be false":                                func(l *Link) { l.Details.Editable = true },
		"forward must be":                                       func(l *Link) { l.Details.Forward = "path" },
	} {
		l := valid()
		change(&l)
		_, err := rules.Check(l)
		invalid, ok := errors.AsType[*InvalidError](err)
		if !ok || !strings.HasPrefix(invalid.Error(), field) {
			t.Errorf("Check: %v, want %s", err, field)
		}
	}
}

// An exported key may equal a reserved name. But an exported key must not equal a path of this service.
func TestImportRulesAllowReservedNamesForExportedKeys(t *testing.T) {
	t.Parallel()
	rules := ImportRules{Exported: true, Now: importTime()}
	for code, want := range map[string]bool{"static": true, "Status": true, "shorten": false, "healthz": false} {
		_, err := rules.Check(Link{Code: code, URL: "https://example.com/", CreatedAt: time.Unix(1, 0)})
		if got := err == nil; got != want {
			t.Errorf("an exported link with the code %s: %v, want valid = %v", code, err, want)
		}
	}
}

// Check does not change a link that is expired and deleted and has all details.
func TestImportCheckDoesNotChangeValidLink(t *testing.T) {
	t.Parallel()
	moment := time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC)
	l := Link{
		Code: "x", URL: "https://example.com/", Source: SourceImport, CreatedAt: moment, ExpiresAt: moment, DeletedAt: moment,
		Details: &Details{
			Owner: 7, Title: "t", Tags: []string{"a", "b"}, Editable: true, Version: 9, ChangedAt: moment, Redirect: 308,
			Forward: ForwardQueryAndPath, FirstURL: "https://first.example/", URLChangedAt: moment.Add(-time.Hour),
		},
	}
	got, err := (&ImportRules{Now: importTime()}).Check(l)
	if diff := cmp.Diff(l, got); err != nil || diff != "" {
		t.Errorf("Check: %v (-want +got):\n%s", err, diff)
	}
}

// The clocks of servers may differ by a day. An expiry may lie far in the future.
func TestImportRulesAllowClockSkewOfOneDay(t *testing.T) {
	t.Parallel()
	rules := ImportRules{Now: importTime()}
	created := importTime().Add(24 * time.Hour)
	l := Link{Code: "x", URL: "https://example.com/", CreatedAt: created, DeletedAt: created.Add(-24 * time.Hour)}
	if _, err := rules.Check(l); err != nil {
		t.Error(err)
	}
	l.ExpiresAt, l.DeletedAt = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Time{}
	if _, err := rules.Check(l); err != nil {
		t.Error(err)
	}
}
