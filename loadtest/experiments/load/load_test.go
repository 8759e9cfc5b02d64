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
	slow    time.Duration // it delays each creation by this time

	mu    sync.Mutex
	made  int
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
func TestFaultOfServiceFailsExactlyTheClaimsAboutIt(t *testing.T) {
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
		{"service loses links", "mix", &broken{loses: true}, []string{measure.NoLostLink, "every redirect right"}},
		{"service redirects to wrong URLs", "mix", &broken{strays: true}, []string{measure.NoWrongLink, "every redirect right"}},
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

// A redirect to a wrong URL is a wrong answer and a failed request, but the claim counts it only once.
func TestRedirectToWrongURLIsCountedOnce(t *testing.T) {
	t.Parallel()
	e := against(t, "mix", &broken{strays: true}, nil)
	i := slices.IndexFunc(e.Claims, func(c report.Claim) bool { return c.Name == "every redirect right" })
	c := e.Claims[i]
	var checked, nowhere, elsewhere, steady, others int
	_, err := fmt.Sscanf(c.Why, "at all rates, %d requests were answered: %d answers led to no link and %d to a wrong URL; at the steady rate, %d requests were due, and %d of them",
		&checked, &nowhere, &elsewhere, &steady, &others)
	if err != nil || elsewhere == 0 || nowhere != 0 || others != 0 || *c.Observed != float64(elsewhere) {
		t.Errorf("observed %v, Sscanf returns the error %v, reason %q; want only redirects to a wrong URL", *c.Observed, err, c.Why)
	}
}

func TestDeploymentIsLoadedAboveSteadyRateOnlyWithFlagClimb(t *testing.T) {
	t.Parallel()
	steps := func(climb bool, service *broken) [][]string {
		e := against(t, "create", service, func(o *experiment.Options) { o.Climb, o.Duration = climb, 50*time.Millisecond })
		return e.Tables[0].Rows
	}
	if rows := steps(false, &broken{}); len(rows) != 1 {
		t.Errorf("without Climb, the report has %d steps, want 1", len(rows))
	}
	if rows := steps(true, &broken{refuses: true}); len(rows) != 1 {
		t.Errorf("the report has %d steps, want 1, because the service did not keep up with the steady rate", len(rows))
	}
	// On a busy machine, the service may not keep up with the steady rate. Then the load is repeated.
	rows := steps(true, &broken{})
	for deadline := time.Now().Add(2 * time.Minute); !keptUp(rows[0]) && time.Now().Before(deadline); {
		rows = steps(true, &broken{})
	}
	if !keptUp(rows[0]) || len(rows) < 2 {
		t.Errorf("with Climb, the report has the steps %q, want more than one step", rows)
	}
}

// keptUp reports whether the service kept up with the step of a row of the table.
func keptUp(row []string) bool { return row[len(row)-1] == "yes" }

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
