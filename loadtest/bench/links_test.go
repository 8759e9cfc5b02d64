package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"keypool/kgs/codespace"
	"keypool/shortener"
)

// testRun is a run that keeps its files until the test ends.
func testRun(t *testing.T, programs string) *run {
	t.Helper()
	r := &run{
		Options: Options{Programs: programs, Rounds: 1, Each: 1e9, Log: func(line string) { t.Log(line) }},
		dir:     t.TempDir(),
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// What SQL fills in is what the bench will ask for: the n-th code, for every n, and its URL.
func TestFilled(t *testing.T) {
	t.Parallel()
	for _, e := range []engine{sqliteEngine, postgresEngine} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			const links = 1000
			f, err := testRun(t, "").filled(t.Context(), e, links)
			if err != nil {
				t.Fatal(err)
			}
			var codes []string
			for link, err := range f.store.All(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, link.Code)
			}
			slices.Sort(codes)
			for n := range int64(links) {
				if n >= int64(len(codes)) || codes[n] != f.code(n) {
					t.Fatalf("the %d. of %d codes is not %s", n, len(codes), f.code(n))
				}
			}
			link, err := f.store.Lookup(t.Context(), f.code(links-1))
			if err != nil || link.URL != linkTo(f.code(links-1)).URL {
				t.Errorf("the last link leads to %q, %v", link.URL, err)
			}
		})
	}
}

// Few links are as few in the next round.
func TestInsertCostLeavesNoLinks(t *testing.T) {
	t.Parallel()
	for _, e := range []engine{sqliteEngine, postgresEngine} {
		const links = 1000
		f, err := testRun(t, "").filled(t.Context(), e, links)
		if err != nil {
			t.Fatal(err)
		}
		if micros, err := insertCost(t.Context(), f, 100*time.Millisecond); err != nil || micros <= 0 {
			t.Errorf("%s: %v µs, %v", e, micros, err)
		}
		left := 0
		for _, err := range f.store.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			left++
		}
		if left != links {
			t.Errorf("%s: %d links, want %d", e, left, links)
		}
	}
}

// A store that lies gives no figure.
func TestLookupsCheckTheURL(t *testing.T) {
	t.Parallel()
	f := &filled{links: 10, codes: codespace.Plain(), store: lyingStore{}}
	if _, err := lookups(t.Context(), f, time.Minute); err == nil {
		t.Error("no error for a wrong URL")
	}
	if _, err := insertCost(t.Context(), f, time.Minute); err == nil {
		t.Error("no error for links that are not new")
	}
}

type lyingStore struct{ shortener.Store }

func (lyingStore) Lookup(_ context.Context, code string) (shortener.Link, error) {
	return shortener.Link{Code: code, URL: "https://elsewhere.example/"}, nil
}

func (lyingStore) Insert(_ context.Context, links []shortener.Link) ([]shortener.Outcome, error) {
	return slices.Repeat([]shortener.Outcome{shortener.Conflict}, len(links)), nil
}
