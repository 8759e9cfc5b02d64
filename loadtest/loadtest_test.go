package loadtest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// brief is a schedule of fifty creations.
var brief = Schedule{Rate: 1000, Duration: 50 * time.Millisecond}

// judge runs the brief schedule against a service and checks the created links.
func judge(t *testing.T, client *Client) Verdict {
	t.Helper()
	journal, recorder := NewJournal(), NewRecorder()
	NewLoad(client, journal, 0).Run(t.Context(), brief, recorder)
	checker := Checker{Client: client, Patience: time.Millisecond}
	findings, err := checker.Check(t.Context(), journal.Entries())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Count(journal.Entries()), recorder.Figures(), cmpopts.IgnoreFields(Figures{}, "Latency")); diff != "" {
		t.Errorf("journal and recorder disagree:\n%s", diff)
	}
	return Verdict{Figures: recorder.Figures(), Findings: findings}
}

func isAny(int) bool       { return true }
func isSeventh(n int) bool { return n == 7 }
func sixthTwice(n int) string { // creations 6 and 7 get the same code
	if n == 7 {
		n = 6
	}
	return string(rune('A'+n/26)) + string(rune('a'+n%26))
}

func TestLoadOrLaterCheckFindsEachFault(t *testing.T) {
	t.Parallel()
	answered := func(status int) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, r *http.Request, url string) {
			if path.Base(r.URL.Path) != "000007" {
				redirect(w, url)
				return
			}
			w.Header().Set("Location", strings.Replace(url, "%2f", "%2F", 1))
			w.WriteHeader(status)
		}
	}
	tests := []struct {
		name    string
		service *service
		figures Figures // figures of fifty creations
		found   Findings
	}{
		{"no fault", &service{}, Figures{Acknowledged: 50}, Findings{Checked: 50}},
		{"one link is lost", &service{forget: isSeventh}, Figures{Acknowledged: 50}, Findings{Checked: 50, Lost: 1}},
		{"all links are lost", &service{forget: isAny}, Figures{Acknowledged: 50}, Findings{Checked: 50, Lost: 50}},
		{"code issued twice, the first link stays", &service{code: sixthTwice, keepFirst: true},
			Figures{Acknowledged: 50}, Findings{Checked: 50, Twice: 1, Wrong: 1}},
		{"code issued twice, the second link replaces the first", &service{code: sixthTwice},
			Figures{Acknowledged: 50}, Findings{Checked: 50, Twice: 1, Wrong: 1}},
		{"all links get one code", &service{code: func(int) string { return "same" }},
			Figures{Acknowledged: 50}, Findings{Checked: 50, Twice: 49, Wrong: 49}},
		{"the answer has no code", &service{code: func(int) string { return "" }},
			Figures{Acknowledged: 50}, Findings{Checked: 50, Wrong: 50}},
		{"the target differs in one character", &service{follow: answered(302)},
			Figures{Acknowledged: 50}, Findings{Checked: 50, Wrong: 1}},
		{"the redirect has another status", &service{follow: answered(301)},
			Figures{Acknowledged: 50}, Findings{Checked: 50, Wrong: 1}},
		{"one link answers 410", &service{follow: answered(410)}, Figures{Acknowledged: 50}, Findings{Checked: 50, Lost: 1}},
		{"one link always answers 503", &service{follow: answered(503)}, Figures{Acknowledged: 50}, Findings{Checked: 50, Unread: 1}},
		{"one creation is refused", &service{refuse: isSeventh}, Figures{Acknowledged: 49, Refused: 1}, Findings{Checked: 49}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := judge(t, tt.service.start(t))
			tt.figures.Sent = 50
			want := Verdict{tt.figures, tt.found}
			ignore := cmp.Options{cmpopts.IgnoreFields(Figures{}, "Latency"), cmpopts.IgnoreFields(Findings{}, "Reports")}
			if diff := cmp.Diff(want, got, ignore); diff != "" {
				t.Errorf("the verdict differs (-want +got):\n%s", diff)
			}
			if reported := len(got.Reports); int64(reported) != min(got.Broken(), maxReports) {
				t.Errorf("the reports describe %d of %d findings", reported, got.Broken())
			}
		})
	}
}

// The load may have two requests in flight. While two are in flight, it neither waits nor sends the next
// request. It records the next request as unsent.
func TestLoadRecordsRequestsBeyondLimitAsUnsent(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	client := NewClient(server.URL, 0)
	t.Cleanup(client.Close)
	journal := NewJournal()
	ctx, cancel := context.WithCancel(t.Context())

	recorder := NewRecorder()
	var running sync.WaitGroup
	running.Go(func() { NewLoad(client, journal, 2).Run(ctx, Schedule{Rate: 1000}, recorder) })
	eventually(t, func() bool { return recorder.Figures().Unsent >= 3 })
	cancel()
	close(release)
	running.Wait()
	got := recorder.Figures()
	if got.Sent < 2 || got.Unsent < 3 || got.Sent+got.Unsent != int64(len(journal.Entries())) {
		t.Errorf("the figures are %+v for %d entries, want 2 requests in flight and the others unsent", got, len(journal.Entries()))
	}
}

// When the context ends, the load sends no further request, and each request in flight still gets its
// answer.
func TestLoadAwaitsAnswersAfterContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	client := NewClient(server.URL, 0)
	t.Cleanup(client.Close)
	recorder := NewRecorder()
	NewLoad(client, NewJournal(), 0).Run(ctx, Schedule{Rate: 1000}, recorder)
	if got := recorder.Figures(); got.Sent == 0 || got.Refused != got.Sent {
		t.Errorf("the figures are %+v, want a refusal for every request that was sent", got)
	}
}

// The journal has the intent of each creation when the request arrives, and its outcome after the answer.
func TestLoadRecordsIntentBeforeRequest(t *testing.T) {
	t.Parallel()
	journal := NewJournal()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ URL string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(journal.Entries(), func(e Entry) bool { return e.URL == body.URL && e.State == Intended }) {
			t.Errorf("the journal has no intent for %s", body.URL)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	client := NewClient(server.URL, 0)
	t.Cleanup(client.Close)
	NewLoad(client, journal, 0).Run(t.Context(), brief, NewRecorder())
	if got := Count(journal.Entries()); got.Refused != 50 {
		t.Errorf("the journal has the figures %+v, want 50 refused creations", got)
	}
}

// eventually waits until ok is true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the condition was not true within two minutes")
		}
	}
}
