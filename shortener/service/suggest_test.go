package service_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"keypool/shortener"
	"keypool/shortener/service"
)

// mustCreateAlias creates a link with this alias.
func mustCreateAlias(t *testing.T, s *service.Service, alias string) {
	t.Helper()
	mustCreate(t, s, shortener.Request{URL: "https://go.dev/", Alias: &alias})
}

func TestSuggestReturnsFreeSimilarAliases(t *testing.T) {
	t.Parallel()
	s, store := newService(t, nil)
	for _, taken := range []string{"mine", "mine-3", "sixteen-letters_", "sixteen-letter-2"} {
		mustCreateAlias(t, s, taken)
	}
	if err := service.Delete(t.Context(), store, "mine-3", testNow); err != nil { // a tombstone is not free
		t.Fatal(err)
	}
	for alias, want := range map[string]string{
		"mine":             `^mine-2 mine-4 mine-[1-9][0-9]$`,
		"sixteen-letters_": `^sixteen-letter-3 sixteen-letter-4 sixteen-lette-[1-9][0-9]$`,
		"-":                `^-2 -3 -4$`,
	} {
		got := s.Suggest(t.Context(), alias)
		if !regexp.MustCompile(want).MatchString(strings.Join(got, " ")) {
			t.Errorf("the suggestions for %s are %q, want %s", alias, got, want)
		}
		for _, free := range got {
			mustCreateAlias(t, s, free)
		}
	}
}

// Suggest makes a limited number of look-ups, even if all variants are taken.
func TestSuggestLimitsLookups(t *testing.T) {
	t.Parallel()
	var asked []string
	store := &faultyStore{Store: newStore(t), lookup: func(_ context.Context, code string) (shortener.Link, error) {
		asked = append(asked, code)
		return shortener.Link{Code: code}, nil
	}}
	s := startService(t, service.Config{Store: store})
	if got := s.Suggest(t.Context(), "mine"); len(got) != 0 {
		t.Errorf("the suggestions are %q", got)
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(asked))); len(asked) != 8 || len(unique) != 8 {
		t.Errorf("Suggest looks up %q, want eight aliases", asked)
	}
}

// If the store stops answering, Suggest returns in time with the aliases that it has
// found.
func TestSuggestReturnsInTimeIfStoreHangs(t *testing.T) {
	t.Parallel()
	plain := newStore(t)
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: plain, lookup: func(ctx context.Context, code string) (shortener.Link, error) {
			if code == "mine-2" {
				return shortener.Link{}, shortener.ErrNotFound
			}
			<-ctx.Done()
			return shortener.Link{}, ctx.Err()
		}}
		s := service.New(service.Config{Store: store})
		defer func() {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		began := time.Now()
		if diff := cmp.Diff([]string{"mine-2"}, s.Suggest(t.Context(), "mine")); diff != "" {
			t.Error(diff)
		}
		if took := time.Since(began); took != 900*time.Millisecond {
			t.Errorf("Suggest takes %v, want 0.9 s", took)
		}
	})
}
