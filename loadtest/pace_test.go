package loadtest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// While too many requests are in flight, Pace does not wait. It counts the due requests as unsent.
func TestPaceCountsRequestsBeyondLimitAsUnsent(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	called := 0
	r := NewRecorder()
	ctx, cancel := context.WithCancel(t.Context())
	// The second request is due long after the call of cancel.
	stuck := func(context.Context) State { called++; cancel(); <-release; return Refused }
	done := make(chan struct{})
	go func() {
		defer close(done)
		Pace(ctx, Schedule{Rate: 1.0 / 120, Duration: 3 * time.Minute}, 1, r, stuck)
	}()
	<-ctx.Done()
	close(release)
	<-done
	if f := r.Figures(); f.Refused != 1 || called != 1 {
		t.Errorf("Pace made %d calls and recorded %+v, want one call and one refused request", called, f)
	}
	full := NewRecorder()
	Pace(t.Context(), Schedule{Rate: 1000, Duration: 3 * time.Millisecond}, 1, full, func(ctx context.Context) State {
		for full.Figures().Unsent < 2 { // the loop ends when the other two requests are unsent
			if ctx.Err() != nil {
				return Unknown
			}
		}
		return Acknowledged
	})
	if f := full.Figures(); f.Acknowledged != 1 || f.Unsent != 2 {
		t.Errorf("Pace recorded %+v, want one acknowledged request and two unsent requests", f)
	}
}

func TestVisitReturnsStateAndRecordsFinding(t *testing.T) {
	t.Parallel()
	const url = "https://loadtest.example/"
	tests := []struct {
		name  string
		fault *service
		code  string
		state State
		want  Findings
	}{
		{"right", &service{}, "000000", Acknowledged, Findings{Checked: 1}},
		{"lost", &service{}, "unknown", Refused, Findings{Checked: 1, Lost: 1}},
		{"wrong", &service{follow: func(w http.ResponseWriter, _ *http.Request, _ string) {
			redirect(w, "https://elsewhere.example/")
		}}, "000000", Refused, Findings{Checked: 1, Wrong: 1}},
		{"unavailable", &service{follow: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}}, "000000", Refused, Findings{Checked: 1}},
		{"no answer", &service{follow: func(http.ResponseWriter, *http.Request, string) {
			panic(http.ErrAbortHandler)
		}}, "000000", Unknown, Findings{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := tt.fault.start(t)
			if o := client.Create(t.Context(), url); o.State != Acknowledged {
				t.Fatalf("the creation of the link has the outcome %+v", o)
			}
			visits := NewVisits(client)
			if got := visits.Visit(t.Context(), Entry{URL: url, Outcome: Outcome{Code: tt.code}}); got != tt.state {
				t.Errorf("Visit returns the state %s, want %s", got, tt.state)
			}
			if diff := cmp.Diff(tt.want, visits.Findings(), cmpopts.IgnoreFields(Findings{}, "Reports")); diff != "" {
				t.Errorf("the findings differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecorderAddIncludesFiguresOfOtherRecorder(t *testing.T) {
	t.Parallel()
	a, b := NewRecorder(), NewRecorder()
	a.add(Acknowledged, time.Millisecond)
	b.add(Refused, time.Second)
	b.add(Unsent, 0)
	a.Add(b)
	if f := a.Figures(); f.Sent != 2 || f.Refused != 1 || f.Unsent != 1 || f.Latency.Max < time.Second || f.Latency.P50 > 2*time.Millisecond {
		t.Errorf("the sum of both recorders is %+v", f)
	}
}

func TestLoadMakesAndRecordsSingleLink(t *testing.T) {
	t.Parallel()
	client := (&service{}).start(t)
	load := NewLoad(client, NewJournal(), 0)
	e := load.One(t.Context())
	if e.State != Acknowledged || e.Code != "000000" {
		t.Errorf("One returns the entry %+v, want an acknowledged link", e)
	}
	if got := load.journal.Entries(); len(got) != 1 || got[0].Outcome != e.Outcome {
		t.Errorf("the journal holds %+v, want %+v", got, e)
	}
}
