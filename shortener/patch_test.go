package shortener

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener/destination"
)

// changed returns the result of p.Apply. An error ends the test.
func changed(t *testing.T, l Link, p Patch, now time.Time) Link {
	t.Helper()
	l, err := p.Apply(l, now, new(destination.Rules))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A change of another member does not change URLChangedAt.
func TestURLChangedAtIgnoresChangesOfOtherMembers(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	at := func(hours int) time.Time { return created.Add(time.Duration(hours) * time.Hour) }
	l := Link{Code: "x", URL: "https://one.example/", CreatedAt: created, Details: &Details{Owner: 1, Editable: true, Version: 1}}
	for i, step := range []struct {
		patch Patch
		want  time.Time
	}{
		{Patch{Title: new("a")}, time.Time{}},
		{Patch{URL: new("https://two.example/")}, at(2)},
		{Patch{Title: new("b")}, at(2)},
		{Patch{URL: new("https://one.example/"), Title: new("c")}, at(4)},
		{Patch{URL: new("https://one.example/"), Title: new("d")}, at(4)},
	} {
		l = changed(t, l, step.patch, at(i+1))
		if got := l.URLChangedAt(); !got.Equal(step.want) || !l.Details.ChangedAt.Equal(at(i+1)) {
			t.Errorf("change %d: the URL changed at %v, want %v; the link changed at %v", i+1, got, step.want, l.Details.ChangedAt)
		}
	}
	l = l.Tombstone(at(9))
	if got := l.URLChangedAt(); !got.Equal(at(4)) {
		t.Errorf("after the deletion, the URL changed at %v, want %v", got, at(4))
	}
}

// After an older release changed the URL, the details have no URLChangedAt. Then the method URLChangedAt returns
// ChangedAt. A later change of another member must keep this time.
func TestLaterChangeKeepsTimeOfURLChangeFromOlderRelease(t *testing.T) {
	t.Parallel()
	text := `{"owner":1,"editable":true,"version":3,"changed_at":"2026-01-02T03:04:05Z","first_url":"https://one.example/"}`
	details, err := ParseDetails(&text)
	if err != nil || *details.Text() != text {
		t.Fatalf("the details are %+v, error %v", details, err)
	}
	l := Link{Code: "x", URL: "https://two.example/", Details: details}
	want := details.ChangedAt
	for range 2 {
		if got := l.URLChangedAt(); !got.Equal(want) {
			t.Errorf("the URL changed at %v, want %v", got, want)
		}
		l = changed(t, l, Patch{Title: new("a")}, want.Add(time.Hour))
	}
	l.Details = &Details{Version: 2, ChangedAt: want}
	if got := l.URLChangedAt(); !got.IsZero() {
		t.Errorf("URLChangedAt of a URL that never changed is %v, want the zero time", got)
	}
}

// Only the members that the service itself set remain after an erasure. The test sets every member, so that it fails if a new
// member is not erased.
func TestErasedLinkKeepsOnlyMembersThatServiceSet(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC)
	full := Link{Details: new(Details), IdempotencyKey: new(IdempotencyKey)}
	setAll(t, reflect.ValueOf(&full).Elem())
	setAll(t, reflect.ValueOf(full.Details).Elem())
	want := Link{
		Code: "x", URL: ErasedURL, Source: "x", CreatedAt: full.CreatedAt, DeletedAt: full.DeletedAt,
		Details: &Details{Owner: 7, Version: 8, ChangedAt: stamp(now)},
	}
	if diff := cmp.Diff(want, full.Erased(now)); diff != "" {
		t.Errorf("the erased link (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, want.Erased(now.Add(time.Hour))); diff != "" {
		t.Errorf("after a second erasure (-want +got):\n%s", diff)
	}
	plain := Link{Code: "x", URL: "https://one.example/", Source: SourceAlias, CreatedAt: now}
	want = Link{
		Code: "x", URL: ErasedURL, Source: SourceAlias, CreatedAt: now, DeletedAt: stamp(now), Details: &Details{Version: 2, ChangedAt: stamp(now)},
	}
	if diff := cmp.Diff(want, plain.Erased(now)); diff != "" {
		t.Errorf("the erased link of a link without details (-want +got):\n%s", diff)
	}
}

// setAll sets each member of a structure that is still zero.
func setAll(t *testing.T, structure reflect.Value) {
	t.Helper()
	for i := range structure.NumField() {
		switch field := structure.Field(i).Addr().Interface().(type) {
		case *string:
			*field = "x"
		case *Forward:
			*field = ForwardQuery
		case *[]string:
			*field = []string{"x"}
		case *int:
			*field = 7
		case *int64:
			*field = 7
		case *bool:
			*field = true
		case *time.Time:
			*field = time.Date(2025, 1, 2, 3, 4, 5, 6000, time.UTC)
		case **Details, **IdempotencyKey:
		default:
			t.Fatalf("a member has the type %T, which the test does not know", field)
		}
	}
}

// An export contains erased links, so an import must accept them.
func TestErasedLinkCanBeImported(t *testing.T) {
	t.Parallel()
	l := Link{Code: "x", URL: "https://one.example/", Source: SourceImport, CreatedAt: importTime()}
	l = l.Erased(importTime())
	got, err := (&ImportRules{Now: importTime()}).Check(l)
	if diff := cmp.Diff(l, got); err != nil || diff != "" {
		t.Errorf("Check: %v (-want +got):\n%s", err, diff)
	}
}
