package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// If the store is slow, each request for a page of a search is answered in time. Together, the pages contain each
// matching link exactly once, although the store fails during one request.
func TestEachPageOfSearchEndsInTimeIfStoreIsSlow(t *testing.T) {
	withSlowStore(t, func(t *testing.T, c *http.Client, store *slowStore) {
		store.longLinks(t, 60)
		store.page, store.maxPerPage, store.failAt = 700*time.Millisecond, 1, 4
		var got []string
		requests := 0
		for cursor := ""; requests == 0 || cursor != ""; requests++ {
			began := time.Now()
			resp := begin(t, c, http.MethodGet, "/api/links?q=3%3F&limit=2&cursor="+cursor, "")
			var page listPage
			if err := json.NewDecoder(resp.body).Decode(&page); err != nil || resp.status != http.StatusOK {
				t.Fatalf("request %d: status %d (want 200), %v", requests, resp.status, err)
			}
			if took := time.Since(began); took > 7*time.Second {
				t.Errorf("request %d took %v", requests, took)
			}
			for _, l := range page.Links {
				got = append(got, l.Code)
			}
			cursor = page.Next
		}
		want := []string{"long13", "long23", "long3", "long33", "long43", "long53"}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(got))); diff != "" || requests < 6 {
			t.Errorf("%d requests found (-want +got):\n%s", requests, diff)
		}
	})
}
