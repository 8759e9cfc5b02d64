package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keypool/shortener"
)

func testOutcomes(t *testing.T, s shortener.Store) {
	old, deleted := Link("old"), Link("deleted")
	Insert(t, s, old, deleted)
	Delete(t, s, deleted)
	other := func(code string) shortener.Link {
		l := Link(code)
		l.URL = "https://other.example/"
		return l
	}
	// The links are not sorted by code: the outcomes must have the order of the links in the call.
	WantOutcomes(t, Insert(t, s, Link("z"), other("old"), Link("m"), other("deleted"), other("m"), Link("a")),
		shortener.Inserted, shortener.Conflict, shortener.Inserted, shortener.Conflict, shortener.Conflict, shortener.Inserted)
	for _, want := range []shortener.Link{old, Deleted(deleted, Moment()), Link("z"), Link("m"), Link("a")} {
		WantLink(t, s, want)
	}
}

func testIdenticalLinks(t *testing.T, s shortener.Store) {
	WantOutcomes(t, Insert(t, s, Link("twin"), Link("twin")), shortener.Inserted, shortener.Conflict)
	WantOutcomes(t, Insert(t, s, Link("twin"), Link("twin")), shortener.Present, shortener.Conflict)
}

// testRepeatedInsert inserts a stored link again. The outcome must be Present. If the inserted link differs
// from the stored link in one field, or if the stored link is deleted, the outcome must be Conflict.
func testRepeatedInsert(t *testing.T, s shortener.Store) {
	base := Link("base")
	base.ExpiresAt = Moment().UTC().Add(time.Hour)
	Insert(t, s, base)
	for name, change := range map[string]func(*shortener.Link){
		"url":        func(l *shortener.Link) { l.URL += "x" },
		"source":     func(l *shortener.Link) { l.Source = shortener.SourceAlias },
		"created_at": func(l *shortener.Link) { l.CreatedAt = l.CreatedAt.Add(time.Microsecond) },
		"expires_at": func(l *shortener.Link) { l.ExpiresAt = l.ExpiresAt.Add(time.Microsecond) },
		"details":    func(l *shortener.Link) { l.Details = &shortener.Details{Owner: 1, Version: 1} },
		"no expiry":  func(l *shortener.Link) { l.ExpiresAt = time.Time{} },
	} {
		changed := base
		change(&changed)
		if got := Insert(t, s, changed); got[0] != shortener.Conflict {
			t.Errorf("Insert of a link with a different %s: outcome %v, want Conflict", name, got[0])
		}
	}
	WantOutcomes(t, Insert(t, s, Link("new"), base), shortener.Inserted, shortener.Present)
	Delete(t, s, base)
	WantOutcomes(t, Insert(t, s, base), shortener.Conflict)
	WantLink(t, s, Deleted(base, Moment()))
}

// testModel compares the outcomes of the store with the outcomes of a model, which keeps the links in a map. The links
// have few different codes and URLs, so that outcomes other than Inserted are frequent.
func testModel(t *testing.T, s shortener.Store) {
	model := make(map[string]shortener.Link)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		links := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) shortener.Link {
			l := Link(fmt.Sprintf("%d-%d", run/4, rapid.IntRange(0, 9).Draw(rt, "code")))
			l.URL += rapid.SampledFrom([]string{"", "?2"}).Draw(rt, "url")
			return l
		}), 1, 20).Draw(rt, "links")
		var want []shortener.Outcome
		matched := make(map[string]bool) // codes for which an earlier link of this call got Inserted or Present
		for _, l := range links {
			row, exists := model[l.Code]
			switch {
			case !exists:
				model[l.Code], matched[l.Code] = l, true
				want = append(want, shortener.Inserted)
			case row == l && !matched[l.Code]:
				matched[l.Code] = true
				want = append(want, shortener.Present)
			default:
				want = append(want, shortener.Conflict)
			}
		}
		WantOutcomes(t, Insert(t, s, links...), want...)
	})
	for _, want := range model {
		WantLink(t, s, want)
	}
}

// testOverlappingCodes inserts the same codes concurrently in different orders. Exactly one link must be inserted
// for each code, and no Insert may fail because of a deadlock.
func testOverlappingCodes(t *testing.T, s shortener.Store) {
	const codes = 400
	got := insertConcurrently(t, s, func(w int) []shortener.Link {
		links := make([]shortener.Link, codes)
		for i := range links {
			links[i] = Link(fmt.Sprint((i + w*codes/concurrentWriters) % codes))
			links[i].URL = fmt.Sprintf("https://h/%d", w)
		}
		return links
	})
	if got != codes {
		t.Fatalf("%d links were inserted for %d codes", got, codes)
	}
}

// testInsertOfTombstones inserts links that were changed or deleted before, as an import does, together with other
// links. The rows must equal the links.
func testInsertOfTombstones(t *testing.T, s shortener.Store) {
	var links []shortener.Link
	for _, code := range []string{"rank", "no-rank"} {
		changed := Owned(code+"1", 7)
		changed.Details.Version, changed.Details.ChangedAt, changed.Details.FirstURL = 3, Moment().UTC(), "https://first.example/"
		changed.Details.URLChangedAt = Moment().UTC().Add(-time.Hour)
		withoutDetails := Link(code + "3")
		withoutDetails.DeletedAt = Moment().UTC()
		links = append(links, Link(code+"0"), changed, Deleted(Link(code+"2"), Moment()), withoutDetails, Deleted(changed, Moment()))
		links[len(links)-1].Code = code + "4"
	}
	for _, want := range []shortener.Outcome{shortener.Inserted, shortener.Present} {
		WantOutcomes(t, Insert(t, s, links...), slices.Repeat([]shortener.Outcome{want}, len(links))...)
		for _, link := range links {
			WantLink(t, s, link)
		}
	}
	other := links[2]
	other.DeletedAt = other.DeletedAt.Add(time.Second)
	WantOutcomes(t, Insert(t, s, other), shortener.Conflict)
}

const concurrentWriters = 8

// insertConcurrently inserts the links of each writer in one call. All writers insert at the same time.
// insertConcurrently returns the number of inserted links.
func insertConcurrently(t *testing.T, s shortener.Store, links func(writer int) []shortener.Link) int {
	t.Helper()
	var inserted atomic.Int32
	var wg sync.WaitGroup
	for w := range concurrentWriters {
		wg.Go(func() {
			outcomes, err := s.Insert(t.Context(), links(w))
			if err != nil {
				t.Error(err)
			}
			for _, o := range outcomes {
				if o == shortener.Inserted {
					inserted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(inserted.Load())
}
