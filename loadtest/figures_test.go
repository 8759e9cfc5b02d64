package loadtest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecorderCountsStatesAndLatencies(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	for ms := range 1000 {
		r.add(Acknowledged, time.Duration(ms+1)*time.Millisecond)
	}
	r.add(Unknown, time.Hour)
	r.add(Refused, 0)
	r.add(Unsent, 0)
	got := r.Figures()
	counts := got
	counts.Latency = Latency{}
	if diff := cmp.Diff(Figures{Sent: 1002, Acknowledged: 1000, Refused: 1, Unknown: 1, Unsent: 1}, counts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The histogram keeps three significant digits.
	near := func(got, want time.Duration) bool { return got >= want && got <= want+want/500 }
	l := got.Latency
	if !near(l.P50, 500*time.Millisecond) || !near(l.P99, 991*time.Millisecond) || !near(l.P999, time.Second) || !near(l.Max, 10*time.Minute) {
		t.Errorf("latency %v, want 500 ms, 991 ms, 1 s and 10 min", l)
	}
}

// A verdict passes only if at least one link was acknowledged and every acknowledged link was read back.
func TestVerdictPassed(t *testing.T) {
	t.Parallel()
	two := Figures{Sent: 2, Acknowledged: 2}
	for _, tt := range []struct {
		name    string
		verdict Verdict
		want    bool
	}{
		{"all links are right", Verdict{two, Findings{Checked: 2}}, true},
		{"links of the warm-up too", Verdict{two, Findings{Checked: 3}}, true},
		{"no request was sent", Verdict{}, false},
		{"one was not read back", Verdict{two, Findings{Checked: 1}}, false},
		{"one is lost", Verdict{two, Findings{Checked: 2, Lost: 1}}, false},
		{"one was refused", Verdict{Figures{Sent: 2, Acknowledged: 1, Refused: 1}, Findings{Checked: 1}}, false},
	} {
		var text strings.Builder
		if err := tt.verdict.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if got := tt.verdict.Passed(); got != tt.want || strings.Contains(text.String(), "FAIL: ") == tt.want {
			t.Errorf("%s: Passed() = %v, want %v; text:\n%s", tt.name, got, tt.want, &text)
		}
	}
}

func TestVerdictAsTextAndJSON(t *testing.T) {
	t.Parallel()
	v := Verdict{
		Figures:  Figures{Sent: 3, Acknowledged: 2, Refused: 1, Latency: Latency{P50: 1500 * time.Microsecond, Max: time.Second}},
		Findings: Findings{Checked: 2, Lost: 1, Reports: []string{"x is lost"}},
	}
	var text strings.Builder
	if err := v.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"acknowledged  2\n", "p50 1.5 ms", "  x is lost\n", "FAIL: 1 creations failed, and 1 links are not as promised"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	got, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"sent":3,"acknowledged":2,"refused":1,"unknown":0,"unsent":0,` +
		`"latency":{"max_ms":1000,"p50_ms":1.5,"p999_ms":0,"p99_ms":0},` +
		`"checked":2,"lost":1,"wrong":0,"twice":0,"unread":0,"reports":["x is lost"]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
