package storetest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"keypool/shortener"
)

// personal occurs in the URL, the title, one tag and the first URL of each link that personalLink returns.
const personal = "Person-4711"

// personalLink returns a link that was changed. Each member has a value, except DeletedAt and IdempotencyKey.
func personalLink(code string) shortener.Link {
	l := Owned(code, 7)
	l.URL, l.ExpiresAt = "https://example.com/"+personal, Moment().UTC().Add(time.Hour)
	l.Details.Title, l.Details.Tags = personal, []string{"a", personal}
	l.Details.FirstURL = "https://first.example/" + personal
	l.Details.Version, l.Details.ChangedAt, l.Details.URLChangedAt = 3, Moment().UTC(), Moment().UTC()
	return l
}

// testErase erases a live link and a deleted link in each table. Only the members that
// [shortener.Link.Erased] keeps may remain.
func testErase(t *testing.T, s shortener.Store) {
	erasure := Moment().UTC().Add(2 * time.Hour)
	var want []shortener.Link
	for _, code := range []string{"ranked", "un-ranked", "deleted", "del-eted"} {
		stored := personalLink(code)
		Insert(t, s, stored, personalLink(code+"2"))
		erased := shortener.Link{
			Code: code, URL: "https://erased.invalid/", Source: "pool", CreatedAt: stored.CreatedAt, DeletedAt: erasure,
			Details: &shortener.Details{Owner: 7, Version: 4, ChangedAt: erasure},
		}
		if strings.HasPrefix(code, "del") {
			deleted := stored.Tombstone(Moment())
			change(t, s, stored, deleted)
			stored, erased.DeletedAt, erased.Details.Version = deleted, deleted.DeletedAt, 5
		}
		wantPersonal(t, s, code, true)
		change(t, s, stored, stored.Erased(erasure))
		want = append(want, erased)
	}
	for _, erased := range want {
		WantLink(t, s, erased)
		wantPersonal(t, s, erased.Code, false)
		WantLink(t, s, personalLink(erased.Code+"2"))

		repeated := erased.Erased(erasure.Add(time.Hour))
		if !shortener.Equal(repeated, erased) {
			t.Errorf("a second erasure of %q changes the link to %+v", erased.Code, repeated)
		}
		revived := personalLink(erased.Code)
		wantUnchanged(t, s, erased, revived)
		revived.DeletedAt = erased.DeletedAt.Add(time.Microsecond)
		wantUnchanged(t, s, erased, revived)
		WantOutcomes(t, Insert(t, s, personalLink(erased.Code)), shortener.Conflict)
	}
}

func change(t *testing.T, s shortener.Store, old, changed shortener.Link) {
	t.Helper()
	if err := s.Change(t.Context(), old, changed); err != nil {
		t.Fatalf("change the link %q: %v", old.Code, err)
	}
}

// wantPersonal calls each method that returns links. Each method must return the link with this code, and this link
// must contain personal data if and only if want is true.
func wantPersonal(t *testing.T, s shortener.Store, code string, want bool) {
	t.Helper()
	links := map[string]shortener.Link{"Lookup": lookup(t, s, code)}
	newest, _, err := s.Newest(t.Context(), shortener.Selection{Owner: 7, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range newest {
		if l.Code == code {
			links["Newest"] = l
		}
	}
	for l, err := range s.Oldest(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Code == code {
			links["Oldest"] = l
		}
	}
	for _, method := range []string{"Lookup", "Newest", "Oldest"} {
		text, err := json.Marshal(links[method])
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), personal); got != want || links[method].Code != code {
			t.Errorf("%s of %q returns personal data: %t, want %t; the link is %s", method, code, got, want, text)
		}
	}
}
