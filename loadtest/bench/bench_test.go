package bench

import (
	"testing"
	"time"

	"keypool/internal/testenv"
	"keypool/loadtest/testbed"
	"keypool/loadtest/wrk"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole way of two bars: the programs as they are shipped, wrk, the checks, figures.
func TestBarsOfRealProcesses(t *testing.T) {
	t.Parallel()
	programs := t.TempDir()
	if err := testenv.Build(t.Context(), programs, "keypool/cmd/..."); err != nil {
		t.Fatal(err)
	}
	r := testRun(t, programs)
	_, err := r.onBed(func(bed *testbed.Bed) ([]Bar, error) {
		bare, err := r.startBare(t.Context(), bed)
		if err != nil {
			return nil, err
		}
		creations, err := r.embeddedCreations(t.Context(), bed)
		if err != nil {
			return nil, err
		}
		redirects, err := r.cachedRedirects(t.Context(), bed)
		if err != nil {
			return nil, err
		}
		once := creation(bare)
		figures, err := r.alternate(t.Context(), creations, redirects, r.wrk("bare", load{Load: wrk.Load{URL: once.URL, Script: "post", Args: []string{once.Body}}}))
		for i, s := range figures {
			if s.Median() < 10 {
				t.Errorf("subject %d: %v answers a second", i, s)
			}
		}
		return nil, err
	})
	if err != nil {
		t.Error(err)
	}
	ms, err := r.firstLink(t.Context())
	if err != nil || ms <= 0 || ms > float64(time.Minute.Milliseconds()) {
		t.Errorf("the first link after %v ms, %v", ms, err)
	}
}
