package loadtest

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestLinkCheckRepeatsLookUpDuringShortOutage(t *testing.T) {
	t.Parallel()
	tries := 0
	s := &service{follow: func(w http.ResponseWriter, _ *http.Request, url string) {
		if tries++; tries == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		redirect(w, url)
	}}
	checker := Checker{Client: s.start(t)}
	const url = "https://loadtest.example/"
	entries := []Entry{{URL: url, Outcome: checker.Client.Create(t.Context(), url)}}
	got, err := checker.Check(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Findings{Checked: 1}, got); diff != "" {
		t.Errorf("the findings differ (-want +got):\n%s", diff)
	}
}

func TestCheckFindsCreationsStoredTwice(t *testing.T) {
	t.Parallel()
	unknown := func(url string) Entry { return Entry{URL: url, Outcome: Outcome{State: Unknown}} }
	entries := []Entry{unknown("a"), unknown("b"), unknown("c")}
	down := errors.New("the store is down")
	tests := []struct {
		name  string
		links [][2]string
		err   error
		want  Findings
	}{
		{"each creation is stored at most once", [][2]string{{"1", "a"}, {"2", "c"}}, nil, Findings{}},
		{"a creation is stored twice", [][2]string{{"1", "a"}, {"2", "b"}, {"3", "a"}}, nil, Findings{Twice: 1}},
		{"other clients have links", [][2]string{{"1", "x"}, {"2", "x"}}, nil, Findings{}},
		{"the census fails", nil, down, Findings{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checker := Checker{
				Client: (&service{}).start(t),
				Census: func(_ context.Context, each func(code, url string)) error {
					for _, link := range tt.links {
						each(link[0], link[1])
					}
					return tt.err
				},
			}
			got, err := checker.Check(t.Context(), entries)
			if !errors.Is(err, tt.err) {
				t.Errorf("Check returns the error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(Findings{}, "Reports")); diff != "" {
				t.Errorf("the findings differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckEndsWhenContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	checker := Checker{Client: (&service{}).start(t)}
	entries := []Entry{{Outcome: Outcome{State: Acknowledged, Code: "x"}}}
	if _, err := checker.Check(ctx, entries); !errors.Is(err, context.Canceled) {
		t.Errorf("Check returns the error %v, want %v", err, context.Canceled)
	}
}
