package scenario

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"
)

// told is what the dead man's switch of a server told us.
type told struct {
	State    string `json:"state"` // "restart", "page" or "ok"
	PoolKeys *int64 `json:"pool_keys"`

	at time.Time // when we heard it
}

// ear is where ALERT_WEBHOOK_URL leads.
type ear struct {
	server *httptest.Server

	mu    sync.Mutex
	heard []told
}

func listen() *ear {
	e := &ear{}
	e.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := told{at: time.Now()}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			w.WriteHeader(http.StatusBadRequest) // it will say so again, and be no signal meanwhile
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heard = append(e.heard, got)
	}))
	return e
}

func (e *ear) close() { e.server.Close() }

// signals is what was heard so far, in order.
func (e *ear) signals() []told {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

// first is the first of the signals, from since on, whose state is among states.
func first(signals []told, since time.Time, states ...string) (told, bool) {
	for _, s := range signals {
		if !s.at.Before(since) && slices.Contains(states, s.State) {
			return s, true
		}
	}
	return told{}, false
}
