//go:build drill

package drill

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// A control counts as caught by the finding it is to provoke and by nothing else.
func TestControlIsCaughtByItsFinding(t *testing.T) {
	tests := []struct {
		name string
		run  func(*drill)
		want bool
	}{
		{"the finding", func(d *drill) { d.Errorf("%d lost", 3) }, true},
		{"the finding, and it ends there", func(d *drill) { d.Fatal("3 lost"); panic("went on") }, true},
		{"after something else", func(d *drill) { d.Error("slow"); d.Error("3 lost") }, true},
		{"something else", func(d *drill) { d.Fatalf("no database") }, false},
		{"nothing", func(*drill) {}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDrill(t, &row{control: control{finds: "^[1-9][0-9]* lost"}}, true)
			if got := d.provoke(tt.run); got != tt.want {
				t.Errorf("caught = %v, want %v", got, tt.want)
			}
		})
	}
}

// A figure that nobody has seen is not 0: rows want some figures to be.
func TestMetricIsSeen(t *testing.T) {
	const seven = "# TYPE kgs_keys_taken_total counter\nkgs_keys_taken_total{source=\"pool\"} 7\n"
	tests := []struct {
		name   string
		metric string
		status int
		answer string
		want   float64 // -1 for a finding
	}{
		{"counted", `kgs_keys_taken_total{source="pool"}`, http.StatusOK, seven, 7},
		{"not counted yet", `kgs_keys_taken_total{source="random"}`, http.StatusOK, seven, 0},
		{"not there", `kgs_key_conflicts_total{source="pool"}`, http.StatusOK, seven, -1},
		{"an error", `kgs_keys_taken_total{source="pool"}`, http.StatusInternalServerError, seven, -1},
		{"no metrics", `kgs_keys_taken_total{source="pool"}`, http.StatusOK, "{", -1},
		{"an end in the middle", `kgs_keys_taken_total{source="pool"}`, http.StatusOK, seven[:len(seven)-3], -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.answer)) // the test sees what has come
			}))
			defer admin.Close()
			got := -1.0
			d := newDrill(t, &row{control: control{finds: "."}}, true)
			found := d.provoke(func(d *drill) { got = (&service{d: d, program: "shortener", admin: admin.URL}).metric(tt.metric) })
			if got != tt.want || found != (tt.want < 0) {
				t.Errorf("%v, a finding: %v; want %v", got, found, tt.want)
			}
		})
	}
}

// Nobody who answers is not 0 either, unless the program may be just starting.
func TestMetricOfNobody(t *testing.T) {
	d := newDrill(t, &row{control: control{finds: "."}}, true)
	nobody := &service{d: d, program: "shortener", admin: "http://" + freeAddr(t)}
	if got := nobody.shipped(); got != 0 {
		t.Errorf("%v keys shipped", got)
	}
	if !d.provoke(func(*drill) { nobody.metric(`kgs_keys_taken_total{source="pool"}`) }) {
		t.Error("no finding")
	}
}

// What the drills break the programs with is not in what users get.
func TestShippedProgramsHaveNoFailpoints(t *testing.T) {
	for _, program := range []string{"shortener", "kgs"} {
		const name = "KEYPOOL_FAILPOINTS"
		if holds(t, programs.shipped, program, name) {
			t.Errorf("the shipped %s knows %s", program, name)
		}
		if !holds(t, mustBuild(t, nil), program, name) {
			t.Errorf("the drills' %s does not know %s", program, name)
		}
	}
}

func holds(t *testing.T, dir, program, name string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(text, []byte(name))
}
