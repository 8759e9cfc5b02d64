//go:build drill

package drill

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// alert is what a drill reads of a POST to ALERT_WEBHOOK_URL.
type alert struct {
	State    string    `json:"state"`
	Previous string    `json:"previous"`
	Pool     *int64    `json:"pool_keys"`
	Capacity int64     `json:"capacity_keys"`
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
}

// hook is where alerts are posted to. It does not take the first try of any.
type hook struct {
	url string

	mu    sync.Mutex
	tries int
	taken []alert
}

func newHook(d *drill) *hook {
	h := &hook{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got alert
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.Method != http.MethodPost {
			d.Errorf("the webhook was sent a %s, error %v", r.Method, err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.tries++; h.tries%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		h.taken = append(h.taken, got)
	}))
	d.Cleanup(server.Close)
	h.url = server.URL
	return h
}

// states are those of the alerts that were taken, in order.
func (h *hook) states() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	states := make([]string, len(h.taken))
	for i, a := range h.taken {
		states[i] = a.State
	}
	return states
}
