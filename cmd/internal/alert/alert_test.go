package alert

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"keypool/cmd/internal/alert/alerttest"
	"keypool/internal/testenv/logbuffer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// These are the states of a pool that are alarms.
const (
	restart State = "restart"
	page    State = "page"
)

func newTestAlerter(url string, log *logbuffer.Buffer) *Alerter {
	return New(Config{
		URL: url, CapacityKeys: 1000, Instance: "host-1", Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

// running starts the alerter. The returned function ends the alerter and waits until Run returns.
func (a *Alerter) running(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
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

func (a *Alerter) states(states ...State) {
	for _, s := range states {
		a.Changed(Event{State: s, At: time.Now()})
	}
}

// received returns the changes of state in the next n attempts.
func received(t *testing.T, h *alerttest.Webhook, n int) (changes []string) {
	t.Helper()
	for range n {
		a := h.Next(t)
		changes = append(changes, a.Previous+" -> "+a.State)
	}
	return changes
}

func TestAlertBodyHasDocumentedMembers(t *testing.T) {
	t.Parallel()
	h := alerttest.New(t, http.StatusNoContent)
	a := newTestAlerter(h.URL(), &logbuffer.Buffer{})
	stop := a.running(t)
	at := time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600))
	keys, runway := int64(50), 12.5
	a.Changed(Event{State: OK, At: at})
	a.Changed(Event{State: page, At: at, PoolKeys: &keys, RunwaySeconds: &runway})
	a.Changed(Event{State: restart, At: at})
	stop()
	want := []string{
		`{"state":"page","previous":"ok","pool_keys":50,"capacity_keys":1000,"runway_seconds":12.5,"instance":"host-1","at":"2026-01-02T03:04:05Z"}`,
		`{"state":"restart","previous":"page","pool_keys":null,"capacity_keys":1000,"runway_seconds":null,"instance":"host-1","at":"2026-01-02T03:04:05Z"}`,
	}
	for _, w := range want {
		if diff := cmp.Diff(w, <-h.Attempts); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAlerterReportsOnlyBeginningAndEndOfAlarms(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		states []State
		want   []string
	}{
		"start":                        {[]State{OK}, nil},
		"start that fails":             {[]State{page, OK}, []string{"filling -> page", "page -> ok"}},
		"two alarms in a row, then ok": {[]State{OK, restart, page, OK}, []string{"ok -> restart", "restart -> page", "page -> ok"}},
		"new epoch":                    {[]State{OK, Filling, OK}, nil},
		"new epoch after an alarm":     {[]State{OK, page, Filling, OK}, []string{"ok -> page", "page -> ok"}},
		"alarm in a new epoch":         {[]State{OK, Filling, restart}, []string{"ok -> restart"}},
		"same alarm again":             {[]State{OK, page, Filling, page}, []string{"ok -> page"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := alerttest.New(t, http.StatusOK)
			a := newTestAlerter(h.URL(), &logbuffer.Buffer{})
			stop := a.running(t)
			a.states(tt.states...)
			stop() // delivers the alerts that wait
			if diff := cmp.Diff(tt.want, received(t, h, len(h.Attempts))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The webhook first does not listen, then redirects, then fails, and then accepts. Each alert is
// repeated until the webhook accepts it. The next alert follows after that.
func TestAlertsAreRetriedUntilAccepted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // from now on, connections are refused
	var log logbuffer.Buffer
	a := newTestAlerter("http://user:S3CR3T@"+addr+"/T0K3N", &log)
	a.running(t)
	a.states(OK, restart, page)
	for deadline := time.After(2 * time.Minute); testutil.ToFloat64(a.outcomes.WithLabelValues("failed")) == 0; {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("no attempt within 2 min")
		}
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	h := alerttest.Serve(t, l, http.StatusFound) // redirects are not followed
	got := received(t, h, 1)
	h.Answer(http.StatusInternalServerError)
	got = append(got, received(t, h, 1)...)
	h.Answer(http.StatusOK)
	got = append(got, received(t, h, 2)...)
	want := []string{"ok -> restart", "ok -> restart", "ok -> restart", "restart -> page"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	text := log.String()
	for _, secret := range []string{"S3CR3T", "T0K3N"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log contains the secret %s:\n%s", secret, text)
		}
	}
	if !strings.Contains(text, "refused") || !strings.Contains(text, "302") {
		t.Errorf("the log does not name the errors of the attempts:\n%s", text)
	}
}

// The orderly stop attempts to deliver an alert to a webhook that hangs. The time of the attempt
// is limited.
func TestStopWaitsOnlyBrieflyForHungWebhook(t *testing.T) {
	t.Parallel()
	h := alerttest.New(t, alerttest.Hang)
	var log logbuffer.Buffer
	a := newTestAlerter(h.URL(), &log)
	stop := a.running(t)
	a.states(OK, restart, page)
	h.Next(t)
	start := time.Now()
	stop()
	if took := time.Since(start); took > lastTimeout+5*time.Second {
		t.Errorf("the stop took %v, which is too long", took)
	}
	if got := received(t, h, len(h.Attempts)); len(got) != 1 || got[0] != "ok -> restart" {
		t.Errorf("the attempts after the stop are %v, want one attempt to deliver the oldest alert", got)
	}
	if text := log.String(); !strings.Contains(text, "alerts=2") || strings.Contains(text, "S3CR3T") {
		t.Errorf("the log must count the two lost alerts, and not contain the URL:\n%s", text)
	}
	if taken := testutil.ToFloat64(a.outcomes.WithLabelValues("taken")); taken != 0 {
		t.Errorf("%v alerts are counted as accepted by the webhook, want 0", taken)
	}
}

// hungNetwork is a network on which each attempt lasts until its timeout.
type hungNetwork struct{ attempts []time.Time }

func (n *hungNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	n.attempts = append(n.attempts, time.Now())
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAlerterBacksOffAfterFailureAndLimitsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAlerter("http://webhook.example/", &logbuffer.Buffer{})
		network := &hungNetwork{}
		a.client.Transport = network
		stop := a.running(t)
		for range maxWaiting {
			a.states(page, OK)
		}
		a.mu.Lock()
		if len(a.queue) != maxWaiting || a.queue[0].State != page {
			t.Errorf("%d alerts wait and the oldest has the state %s; want %d alerts and page", len(a.queue), a.queue[0].State, maxWaiting)
		}
		a.mu.Unlock()
		if dropped := testutil.ToFloat64(a.outcomes.WithLabelValues("dropped")); dropped != maxWaiting {
			t.Errorf("%v alerts were dropped, want the %d oldest", dropped, maxWaiting)
		}
		time.Sleep(10 * time.Minute)
		stop()
		for i, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			gap := network.attempts[i+1].Sub(network.attempts[i]) - attemptTimeout
			if gap != time.Duration(want)*time.Second {
				t.Errorf("waited %v between the attempts %d and %d, want %d s", gap, i, i+1, want)
			}
		}
	})
}
