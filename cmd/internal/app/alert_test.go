package app

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keypool/kgs"
	"keypool/kgs/refill"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newTestAlerter(url string, log *lockedBuffer) *alerter {
	return newAlerter(Settings{AlertWebhook: url, PoolCapacity: 1000}, "host-1", prometheus.NewRegistry(),
		slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// running starts the alerter and gives what ends it and waits for its end.
func (a *alerter) running(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- a.run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func (a *alerter) states(states ...refill.State) {
	for _, s := range states {
		a.changed(refill.Judgement{State: s, Since: time.Now()})
	}
}

// told is what was said of each alert that came.
func told(t *testing.T, h *webhook, n int) (said []string) {
	t.Helper()
	for range n {
		a := h.next(t)
		said = append(said, string(a.Previous)+" -> "+string(a.State))
	}
	return said
}

func TestAlertSaysWhatTheContractSays(t *testing.T) {
	t.Parallel()
	h := newWebhook(t, http.StatusNoContent)
	a := newTestAlerter(h.url(), &lockedBuffer{})
	stop := a.running(t)
	at := time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600))
	a.changed(refill.Judgement{State: refill.StateOK, Since: at})
	a.changed(refill.Judgement{State: refill.StatePage, Since: at, Known: true, Pool: refill.Observation{PoolStatus: kgs.PoolStatus{Keys: 50}}, Rate: 4})
	a.changed(refill.Judgement{State: refill.StateRestart, Since: at, Pool: refill.Observation{PoolStatus: kgs.PoolStatus{Keys: 50}}, Rate: 4})
	stop()
	want := []string{
		`{"state":"page","previous":"ok","pool_keys":50,"capacity_keys":1000,"runway_seconds":12.5,"instance":"host-1","at":"2026-01-02T03:04:05Z"}`,
		`{"state":"restart","previous":"page","pool_keys":null,"capacity_keys":1000,"runway_seconds":null,"instance":"host-1","at":"2026-01-02T03:04:05Z"}`,
	}
	for _, w := range want {
		if diff := cmp.Diff(w, <-h.tries); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAlertsAreChangesThatMatter(t *testing.T) {
	t.Parallel()
	const filling, ok, low, page = refill.StateFilling, refill.StateOK, refill.StateRestart, refill.StatePage
	tests := map[string]struct {
		states []refill.State
		want   []string
	}{
		"a cold start":                 {[]refill.State{ok}, nil},
		"a cold start that fails":      {[]refill.State{page, ok}, []string{"filling -> page", "page -> ok"}},
		"worse and worse, then better": {[]refill.State{ok, low, page, ok}, []string{"ok -> restart", "restart -> page", "page -> ok"}},
		"a new epoch":                  {[]refill.State{ok, filling, ok}, nil},
		"a new epoch after an alarm":   {[]refill.State{ok, page, filling, ok}, []string{"ok -> page", "page -> ok"}},
		"an alarm in a new epoch":      {[]refill.State{ok, filling, low}, []string{"ok -> restart"}},
		"the same alarm as before":     {[]refill.State{ok, page, filling, page}, []string{"ok -> page"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newWebhook(t, http.StatusOK)
			a := newTestAlerter(h.url(), &lockedBuffer{})
			stop := a.running(t)
			a.states(tt.states...)
			stop() // posts what is left
			if diff := cmp.Diff(tt.want, told(t, h, len(h.tries))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A webhook that is not there, then refuses, then hangs, then takes, gets each alert until
// it has taken it, and in order.
func TestAlertsAreRetriedUntilTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // nobody is there
	var log lockedBuffer
	a := newTestAlerter("http://user:S3CR3T@"+addr+"/T0K3N", &log)
	a.running(t)
	a.states(refill.StateOK, refill.StateRestart, refill.StatePage)
	for deadline := time.After(30 * time.Second); testutil.ToFloat64(a.outcomes.WithLabelValues("failed")) == 0; {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("nothing was tried")
		}
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	h := serveWebhook(t, l, http.StatusFound) // nobody is followed to elsewhere
	said := told(t, h, 1)
	h.becomes(http.StatusInternalServerError)
	said = append(said, told(t, h, 1)...)
	h.becomes(http.StatusOK)
	said = append(said, told(t, h, 2)...)
	want := []string{"ok -> restart", "ok -> restart", "ok -> restart", "restart -> page"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	for _, secret := range []string{"S3CR3T", "T0K3N"} {
		if text := log.String(); strings.Contains(text, secret) || !strings.Contains(text, "refused") || !strings.Contains(text, "302") {
			t.Errorf("the log must tell why, and not %s:\n%s", secret, text)
		}
	}
}

// One that hangs is given up by the orderly stop too, in bounded time, after it was tried.
func TestAlertsThatNobodyTakesEndWithTheProgram(t *testing.T) {
	t.Parallel()
	h := newWebhook(t, 0)
	var log lockedBuffer
	a := newTestAlerter(h.url(), &log)
	stop := a.running(t)
	a.states(refill.StateOK, refill.StateRestart, refill.StatePage)
	h.next(t)
	start := time.Now()
	stop()
	if took := time.Since(start); took > lastAlertTry+5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if said := told(t, h, len(h.tries)); len(said) != 1 || said[0] != "ok -> restart" {
		t.Errorf("the last try was %v, want the first that is left", said)
	}
	if text := log.String(); !strings.Contains(text, "alerts=2") || strings.Contains(text, "S3CR3T") {
		t.Errorf("the log must tell that two alerts are lost, without the URL:\n%s", text)
	}
	if left := testutil.ToFloat64(a.outcomes.WithLabelValues("taken")); left != 0 {
		t.Errorf("%v alerts are said to be taken", left)
	}
}

// deafness is a network on which each try takes until it is given up.
type deafness struct{ tries []time.Time }

func (d *deafness) RoundTrip(r *http.Request) (*http.Response, error) {
	d.tries = append(d.tries, time.Now())
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAlertsBackOffAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAlerter("http://webhook.example/", &lockedBuffer{})
		network := &deafness{}
		a.client.Transport = network
		stop := a.running(t)
		for range maxAlerts {
			a.states(refill.StatePage, refill.StateOK)
		}
		a.mu.Lock()
		if len(a.queue) != maxAlerts || a.queue[0].State != refill.StatePage {
			t.Errorf("%d alerts wait, from %s on", len(a.queue), a.queue[0].State)
		}
		a.mu.Unlock()
		if dropped := testutil.ToFloat64(a.outcomes.WithLabelValues("dropped")); dropped != maxAlerts {
			t.Errorf("%v alerts were dropped, want the %d oldest", dropped, maxAlerts)
		}
		time.Sleep(10 * time.Minute)
		stop()
		for i, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			gap := network.tries[i+1].Sub(network.tries[i]) - alertTimeout
			if gap != time.Duration(want)*time.Second {
				t.Errorf("%v between the tries %d and %d, want %v s", gap, i, i+1, want)
			}
		}
	})
}
