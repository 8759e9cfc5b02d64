package scenario

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// broken is a shortener in a map that does not keep its word; without a fault it does.
type broken struct {
	loses   bool // every seventh link
	repeats bool // every seventh code
	refuses bool // every seventh creation
	strays  bool // to another place, with every seventh link
	slow    time.Duration

	mu    sync.Mutex
	made  int
	links map[string]link
}

type link struct {
	url string
	n   int
}

func (b *broken) start(t *testing.T) *Run {
	t.Helper()
	b.links = make(map[string]link)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	run := quiet()
	run.Target = server.URL
	return run
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

// Against a service that is broken on purpose each claim fails that is about what is broken,
// and no other.
func TestClaimsFail(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		scenario string
		service  *broken
		want     []string
	}{
		{"sound", "create", &broken{}, nil},
		{"loses links", "create", &broken{loses: true}, []string{claimKept}},
		{"repeats codes", "create", &broken{repeats: true}, []string{claimOnce, claimRight}},
		{"refuses", "create", &broken{refuses: true}, []string{claimServed, claimSteadyRate}},
		{"strays", "create", &broken{strays: true}, []string{claimRight}},
		{"slow", "create", &broken{slow: 1100 * time.Millisecond}, []string{claimSteadyRate}},
		{"sound", "mix", &broken{}, nil},
		{"loses links", "mix", &broken{loses: true}, []string{claimKept, claimVisits}},
		{"strays", "mix", &broken{strays: true}, []string{claimRight, claimVisits}},
	}
	for _, tt := range tests {
		t.Run(tt.scenario+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			s := execute(t, tt.scenario, tt.service.start(t))
			for i := range s.Claims {
				if s.Claims[i].Name == claimVisitP99 { // how fast it is, is not what is tested
					s.Claims = append(s.Claims[:i], s.Claims[i+1:]...)
					break
				}
			}
			mustFail(t, s, tt.want...)
		})
	}
}
