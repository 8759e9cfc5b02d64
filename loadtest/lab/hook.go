package lab

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"
)

// Alert is one signal that a server posted to ALERT_WEBHOOK_URL. A member of another type makes
// the request malformed.
type Alert struct {
	State        string    `json:"state"` // "restart", "page" or "ok"
	Previous     string    `json:"previous"`
	PoolKeys     *int64    `json:"pool_keys"`
	CapacityKeys int64     `json:"capacity_keys"`
	Instance     string    `json:"instance"`
	At           time.Time `json:"at"` // by the clock of the server

	Received time.Time `json:"-"`
}

// Hook receives the alerts of servers. Its methods may be called concurrently.
type Hook struct {
	URL string

	mu     sync.Mutex
	refuse bool
	tries  int
	alerts []Alert
	bad    int
}

// Webhook starts a receiver.
func Webhook(r T) *Hook {
	h := &Hook{}
	server := httptest.NewServer(h)
	r.Cleanup(server.Close)
	h.URL = server.URL
	return h
}

// RefuseEveryOther makes the hook answer 503 to the first of every two tries from now on.
func (h *Hook) RefuseEveryOther() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = true
}

// ServeHTTP takes one alert.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	alert := Alert{Received: time.Now()}
	err := json.NewDecoder(r.Body).Decode(&alert)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries++
	switch {
	case err != nil || r.Method != http.MethodPost:
		h.bad++
		w.WriteHeader(http.StatusBadRequest)
	case h.refuse && h.tries%2 == 1:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		h.alerts = append(h.alerts, alert)
	}
}

// Alerts are the alerts that were taken, in order.
func (h *Hook) Alerts() []Alert {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.alerts)
}

// Malformed is how many requests were no alerts. A claim about alerts wants 0.
func (h *Hook) Malformed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bad
}

// States are the states of the alerts that were taken, in order.
func (h *Hook) States() []string {
	var states []string
	for _, a := range h.Alerts() {
		states = append(states, a.State)
	}
	return states
}

// FirstAlert returns the first alert received at or after since whose state is one of states.
func FirstAlert(alerts []Alert, since time.Time, states ...string) (Alert, bool) {
	i := slices.IndexFunc(alerts, func(a Alert) bool { return !a.Received.Before(since) && slices.Contains(states, a.State) })
	if i < 0 {
		return Alert{}, false
	}
	return alerts[i], true
}
