package lab

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"
)

// Alert is one signal that a server posted to ALERT_WEBHOOK_URL. A request is malformed if its method is not
// POST or its body is not JSON. It is also malformed if the type of a member does not match the field of Alert.
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

// RefuseEveryOther makes the hook refuse every second request with 503 from now on, so that servers must
// repeat their alerts.
func (h *Hook) RefuseEveryOther() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = true
}

// ServeHTTP receives one alert.
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

// Alerts returns the accepted alerts in the order of their arrival.
func (h *Hook) Alerts() []Alert {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.alerts)
}

// Malformed returns the number of malformed requests. A claim about alerts must require that this number is
// 0.
func (h *Hook) Malformed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bad
}

// States returns the states of the accepted alerts in the order of their arrival.
func (h *Hook) States() []string {
	var states []string
	for _, a := range h.Alerts() {
		states = append(states, a.State)
	}
	return states
}

// FirstAlert returns the first alert that was received at or after start and has one of the states.
func FirstAlert(alerts []Alert, start time.Time, states ...string) (Alert, bool) {
	i := slices.IndexFunc(alerts, func(a Alert) bool { return !a.Received.Before(start) && slices.Contains(states, a.State) })
	if i < 0 {
		return Alert{}, false
	}
	return alerts[i], true
}
