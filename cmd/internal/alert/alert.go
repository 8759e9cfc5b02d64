// Package alert delivers the alarms of a key pool to a webhook.
//
// An event is a change of the state of the pool. An alarm is a state that needs attention, such as the state "page". An alert is
// a JSON document about an event that begins or ends an alarm. Alerts are sent to the webhook with POST.
//
// Invariants:
//
//   - alerts are delivered one at a time, in the order of their events;
//   - each alert is repeated until the webhook answers 2xx, so the webhook may receive an alert more
//     than once. An alert is lost only if too many newer alerts wait or the process ends;
//   - the URL of the webhook is a secret and appears in no log.
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
	firstGap       = time.Second // time between the first two attempts; the time doubles after each attempt
	maxGap         = time.Minute
	maxWaiting     = 100             // alerts in the queue
	lastTimeout    = 2 * time.Second // time limit of all attempts after the stop
)

// State is a state of the pool. Every state except Filling and OK is an alarm.
type State string

// These states are not alarms.
const (
	Filling State = "filling" // the pool is not full yet, for example after a start
	OK      State = "ok"
)

// Event is a change of the pool's state. A nil field is unknown.
type Event struct {
	State         State
	At            time.Time
	PoolKeys      *int64
	RunwaySeconds *float64
}

// alert is the JSON document that is POSTed.
type alert struct {
	State         State     `json:"state"`
	Previous      State     `json:"previous"` // the last state before State that was not Filling; Filling if there was none
	PoolKeys      *int64    `json:"pool_keys"`
	CapacityKeys  int64     `json:"capacity_keys"`
	RunwaySeconds *float64  `json:"runway_seconds"`
	Instance      string    `json:"instance"`
	At            time.Time `json:"at"`
}

// Config holds the settings of an Alerter. All fields are required.
type Config struct {
	URL          string // address of the webhook; a secret
	CapacityKeys int64  // keys in a full pool
	Instance     string // name of this process
	Registerer   prometheus.Registerer
	Logger       *slog.Logger
}

// Alerter delivers alerts. Its methods are safe for concurrent use, but Run must be called only
// once.
type Alerter struct {
	cfg      Config
	client   *http.Client
	outcomes *prometheus.CounterVec
	wake     chan struct{}

	mu       sync.Mutex
	reported State
	queue    []*alert
}

// New returns an Alerter for a pool in the state Filling. The Alerter delivers nothing before Run.
func New(cfg Config) *Alerter {
	a := &Alerter{
		cfg: cfg,
		client: &http.Client{
			// A connection that is kept open could break silently, for example in a firewall. Each attempt on this connection
			// would end with a timeout.
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		outcomes: promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_alerts_total",
			Help: "Alerts by outcome: taken (accepted by the webhook) or dropped (too many alerts waited). Attempts that failed are counted as failed.",
		}, []string{"outcome"}),
		wake: make(chan struct{}, 1), reported: Filling,
	}
	for _, outcome := range []string{"taken", "failed", "dropped"} {
		a.outcomes.WithLabelValues(outcome)
	}
	return a
}

// Changed adds an alert to the queue if e begins or ends an alarm. It does not block. The state Filling
// neither begins nor ends an alarm. If the state is Filling after an alarm, Changed adds the alert
// about the end of the alarm later, when the state becomes OK. If no alarm preceded the first OK after
// the start, there is no alert.
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

// enqueue appends an alert. If the queue is full, it drops the oldest alert, which matters least.
// The caller holds mu.
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

// front returns the alert to deliver next, or nil if no alert waits.
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
