// Package alert delivers the alarms of a key pool to a webhook.
//
// An event is a change of state of the pool. An alert is a JSON document that is POSTed for an
// event which is an alarm or ends one. Invariant: alerts are delivered one after the other in the
// order of their events, each at least once: it is repeated until the webhook answers 2xx, too
// many newer ones wait, or the process ends. The webhook's URL is a secret and appears in no log.
package alert

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	attemptTimeout = 10 * time.Second
	firstGap       = time.Second // between two attempts, doubling
	maxGap         = time.Minute
	maxWaiting     = 100             // alerts
	lastTimeout    = 2 * time.Second // of all attempts after the stop
)

// State is a state of the pool. Every state but Filling and OK is an alarm.
type State string

// The states that are no alarms.
const (
	Filling State = "filling" // not full yet, as after a start
	OK      State = "ok"
)

// Event is a change of the pool's state. What is unknown is nil.
type Event struct {
	State         State
	At            time.Time
	PoolKeys      *int64
	RunwaySeconds *float64
}

// alert is the JSON document that is POSTed.
type alert struct {
	State         State     `json:"state"`
	Previous      State     `json:"previous"` // that of the last alert
	PoolKeys      *int64    `json:"pool_keys"`
	CapacityKeys  int64     `json:"capacity_keys"`
	RunwaySeconds *float64  `json:"runway_seconds"`
	Instance      string    `json:"instance"`
	At            time.Time `json:"at"`
}

// Config are the settings of an Alerter. All of them are required.
type Config struct {
	URL          string // of the webhook; a secret
	CapacityKeys int64  // of the pool
	Instance     string // names this process
	Registerer   prometheus.Registerer
	Logger       *slog.Logger
}

// Alerter delivers alerts. Its methods may be called from any goroutine, Run once.
type Alerter struct {
	cfg      Config
	client   *http.Client
	outcomes *prometheus.CounterVec
	wake     chan struct{}

	mu       sync.Mutex
	reported State
	queue    []*alert
}

// New makes an Alerter for a pool that is Filling. Nothing is delivered before Run.
func New(cfg Config) *Alerter {
	a := &Alerter{
		cfg: cfg,
		client: &http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		outcomes: promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_alerts_total",
			Help: "Alerts by outcome: taken by the webhook, failed attempts, and alerts dropped because too many waited.",
		}, []string{"outcome"}),
		wake: make(chan struct{}, 1), reported: Filling,
	}
	for _, outcome := range []string{"taken", "failed", "dropped"} {
		a.outcomes.WithLabelValues(outcome)
	}
	return a
}

// Changed takes an event; it does not block. Filling is neither an alarm nor the end of one: a
// pool that fills after an alarm is reported when it is OK, and one that fills after a start is
// not reported.
func (a *Alerter) Changed(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.State == Filling || e.State == a.reported {
		return
	}
	previous := a.reported
	a.reported = e.State
	if previous == Filling && e.State == OK {
		return
	}
	a.enqueue(&alert{
		State: e.State, Previous: previous, PoolKeys: e.PoolKeys, CapacityKeys: a.cfg.CapacityKeys,
		RunwaySeconds: e.RunwaySeconds, Instance: a.cfg.Instance, At: e.At.UTC(),
	})
}

// enqueue drops the oldest of too many alerts, which matters least by now. The caller holds mu.
func (a *Alerter) enqueue(next *alert) {
	if len(a.queue) == maxWaiting {
		a.cfg.Logger.Error("alert dropped: too many alerts wait for the webhook",
			slog.String("state", string(a.queue[0].State)), slog.Time("at", a.queue[0].At))
		a.outcomes.WithLabelValues("dropped").Inc()
		a.queue = a.queue[1:]
	}
	a.queue = append(a.queue, next)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// front is the alert to deliver next, nil when none waits.
func (a *Alerter) front() *alert {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		return nil
	}
	return a.queue[0]
}

func (a *Alerter) waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue)
}
