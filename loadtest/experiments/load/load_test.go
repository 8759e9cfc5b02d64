package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

// TestMain runs a baseline instead of the tests if a test has started this process as a baseline.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "baseline" {
		fmt.Fprintln(os.Stderr, "baseline:", measure.ServeBare(context.Background(), os.Args[3]))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// broken is a shortener that stores its links in a map and has at most one fault.
type broken struct {
	loses   bool          // it acknowledges every seventh link without storing it
	repeats bool          // it answers every seventh creation with the code of the creation before
	refuses bool          // it refuses every seventh creation
	strays  bool          // it redirects every seventh link to a wrong URL
	fails   bool          // it answers every seventh request for a redirect with 503
	slow    time.Duration // it delays each creation by this time

	mu    sync.Mutex
	made  int
	asked int // requests for redirects
	links map[string]link
}

type link struct {
	url string
	n   int
}

func (b *broken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		b.follow(w, r)
		return
	}
	select {
	case <-time.After(b.slow):
	case <-r.Context().Done():
	}
	var body struct{ URL string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.made
	b.made++
	code, seventh := fmt.Sprint(n), n%7 == 6
	if b.repeats && seventh {
		code = fmt.Sprint(n - 1)
	}
	if b.refuses && seventh {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if _, taken := b.links[code]; !taken && (!b.loses || !seventh) {
		b.links[code] = link{body.URL, n}
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"code":%q}`, code)
}

func (b *broken) follow(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.links[r.URL.Path[1:]]
	if b.asked++; b.fails && b.asked%7 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	if b.strays && l.n%7 == 6 {
		l.url = "https://elsewhere.example/"
	}
	w.Header().Set("Location", l.url)
	w.WriteHeader(http.StatusFound)
}

// against runs an experiment against a service with a small load.
func against(t *testing.T, name string, service *broken, change func(*experiment.Options)) report.Experiment {
	t.Helper()
	service.links = make(map[string]link)
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	options := experiment.Options{
		Target: server.URL, Scale: 1, Rate: 200, Duration: 300 * time.Millisecond, Log: func(string) {}, Live: func(experiment.Live) {},
	}
	if change != nil {
		change(&options)
	}
	all, err := experiment.Select(Experiments(), "", []string{name})
	if err != nil {
		t.Fatal(err)
	}
	var result report.Experiment
	r := experiment.Runner{Options: options, Done: func(e report.Experiment) { result = e }}
	r.Run(t.Context(), all)
	if result.Error != "" {
		t.Errorf("the experiment %s failed: %s", name, result.Error)
	}
	return result
}

// A fault of the service refutes each claim that is about the fault, and no other claim. Claims
// about speed are an exception: they may also fail because other programs use the processors.
func TestFaultOfServiceRefutesExactlyTheClaimsAboutIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		experiment string
		service    *broken
		want       []string
	}{
		{"service without faults", "create", &broken{}, nil},
		{"service loses links", "create", &broken{loses: true}, []string{measure.NoLostLink}},
		{"service repeats codes", "create", &broken{repeats: true}, []string{measure.NoCodeTwice, measure.NoWrongLink}},
		{"service refuses creations", "create", &broken{refuses: true}, []string{measure.NoFailedCreation, "steady rate sustained"}},
		{"service redirects to wrong URLs", "create", &broken{strays: true}, []string{measure.NoWrongLink}},
		{"service is slow", "create", &broken{slow: 1100 * time.Millisecond}, []string{"steady rate sustained"}},
		{"service without faults", "mix", &broken{}, nil},
		{"service loses links", "mix", &broken{loses: true}, []string{measure.NoLostLink, visitsRight}},
		{"service redirects to wrong URLs", "mix", &broken{strays: true}, []string{measure.NoWrongLink, visitsRight}},
		{"service refuses redirects", "mix", &broken{fails: true}, []string{visitsServed}},
	}
	for _, tt := range tests {
		t.Run(tt.experiment+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			e := against(t, tt.experiment, tt.service, nil)
			for _, c := range e.Claims {
				failed, wanted := c.Outcome == report.Failed, slices.Contains(tt.want, c.Name)
				if failed != wanted && (wanted || c.Kind != report.Speed) {
					t.Errorf("the outcome of the claim %q is %q: %s", c.Name, c.Outcome, c.Why)
				}
			}
			if len(e.Charts) != 1 || len(e.Tables) != 1 {
				t.Errorf("the report has %d charts and %d tables, want 1 and 1", len(e.Charts), len(e.Tables))
			}
		})
	}
}

// A redirect to a wrong URL is a wrong answer and a failed request, but only the claim about wrong answers counts it.
func TestRedirectToWrongURLIsCountedOnce(t *testing.T) {
	t.Parallel()
	e := against(t, "mix", &broken{strays: true}, nil)
	observed := make(map[string]float64)
	for _, c := range e.Claims {
		if c.Observed != nil {
			observed[c.Name] = *c.Observed
		}
	}
	if observed[visitsRight] == 0 || observed[visitsServed] != 0 {
		t.Errorf("%v wrong answers and %v failed redirects, want only wrong answers", observed[visitsRight], observed[visitsServed])
	}
}

func TestDeploymentIsNotLoadedAboveSteadyRate(t *testing.T) {
	t.Parallel()
	e := against(t, "create", &broken{}, func(o *experiment.Options) { o.Duration = 50 * time.Millisecond })
	if rows := e.Tables[0].Rows; len(rows) != 1 {
		t.Errorf("the report has the steps %q, want one step", rows)
	}
}

// climbed loads a service as if the run had started it, and returns the steps.
func climbed(t *testing.T, service *broken) (steps []step) {
	t.Helper()
	service.links = make(map[string]link)
	server := httptest.NewServer(service)
	defer server.Close()
	e := experiment.Define(experiment.Definition[record]{
		Name: "load/climb", Suites: []experiment.Suite{experiment.Nightly}, Claims: accounts(),
		Run: func(et *experiment.T, r *record) {
			r.plan = plan{rate: 200, lasts: 50 * time.Millisecond, each: 50 * time.Millisecond, climb: 2}
			s := &run{T: et, record: r, load: lab.Traffic(et, lab.Deployment(et, server.URL))}
			et.Must(s.measureSteady("creations", s.load.Run))
			s.climb(s.load.Run)
			steps = s.steps
		},
	})
	runner := experiment.Runner{Options: experiment.Options{Scale: 1, Log: func(string) {}, Live: func(experiment.Live) {}}, Done: func(report.Experiment) {}}
	runner.Run(t.Context(), []*experiment.Experiment{e})
	return steps
}

func TestRateRisesOnlyWhileServiceKeepsUp(t *testing.T) {
	t.Parallel()
	if steps := climbed(t, &broken{refuses: true}); len(steps) != 1 {
		t.Errorf("%d steps, want 1, because the service did not keep up with the steady rate", len(steps))
	}
	// On a busy machine, the service may not keep up with the steady rate. Then the load is repeated.
	steps := climbed(t, &broken{})
	for deadline := time.Now().Add(2 * time.Minute); !steps[0].keptUp() && time.Now().Before(deadline); {
		steps = climbed(t, &broken{})
	}
	if !steps[0].keptUp() || len(steps) < 2 {
		t.Errorf("the steps are %+v, want more than one step", steps)
	}
}

func TestReportNamesRateAndHidesPassword(t *testing.T) {
	t.Parallel()
	e := against(t, "create", &broken{refuses: true}, func(o *experiment.Options) {
		o.Target = strings.Replace(o.Target, "http://", "http://user:secret@", 1)
	})
	text, err := json.Marshal(e)
	if err != nil || strings.Contains(string(text), "secret") || e.Settings["target"] == "" {
		t.Errorf("error %v; the report must name the target without its password:\n%s", err, text)
	}
	if !strings.Contains(e.Claims[0].Text, "steady 200 creations") {
		t.Errorf("the claim is %q, want the rate of the run in it", e.Claims[0].Text)
	}
	for _, c := range e.Claims {
		if strings.Contains(c.Text, "stored") {
			t.Errorf("the claim is %q, but nothing shows what the database of a deployment stores", c.Text)
		}
	}
}

func TestKneeIsLastStepThatServiceKeepsUpWith(t *testing.T) {
	t.Parallel()
	keptUp := loadtest.Figures{Sent: 1, Acknowledged: 1}
	slow := loadtest.Figures{Sent: 1, Acknowledged: 1, Latency: loadtest.Latency{P99: kneeLatency + time.Millisecond}}
	failed := loadtest.Figures{Sent: 1, Refused: 1}
	for _, tt := range []struct {
		steps []step
		knee  float64 // offered rate; 0 if there is no knee
		note  string
		marks int // marks in the chart
	}{
		{[]step{{100, 1, keptUp}, {160, 1, keptUp}}, 160, "not reached", 0},
		{[]step{{100, 1, keptUp}, {160, 1, slow}}, 100, "The knee is at 100", 1},
		{[]step{{100, 1, failed}}, 0, "did not keep up", 0},
	} {
		offered := 0.0
		if k := knee(tt.steps); k != nil {
			offered = k.offered
		}
		if note := kneeNote(tt.steps); offered != tt.knee || !strings.Contains(note, tt.note) {
			t.Errorf("the knee is at %v/s with the note %q, want %v/s and a note with %q", offered, note, tt.knee, tt.note)
		}
		if marks := stepChart("requests", tt.steps).Marks; len(marks) != tt.marks {
			t.Errorf("the chart with the note %q has the marks %v, want %d", tt.note, marks, tt.marks)
		}
	}
}
