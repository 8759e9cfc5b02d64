package app

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"keypool/kgs/refill"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	alertTimeout  = 10 * time.Second // of one try
	firstAlertGap = time.Second      // between two tries, doubling
	maxAlertGap   = time.Minute
	maxAlerts     = 100             // that wait to be taken
	lastAlertTry  = 2 * time.Second // for all that still wait at an orderly stop
)

// alert is what is POSTed to ALERT_WEBHOOK_URL. What is unknown is null.
type alert struct {
	State         refill.State `json:"state"`
	Previous      refill.State `json:"previous"` // the one told before
	PoolKeys      *int64       `json:"pool_keys"`
	CapacityKeys  int64        `json:"capacity_keys"`
	RunwaySeconds *float64     `json:"runway_seconds"`
	Instance      string       `json:"instance"`
	At            time.Time    `json:"at"`
}

// alerter tells a webhook of each change of state that is an alarm or ends one, one after
// the other, each until it is taken. Whoever takes one and is cut off before he can say so
// gets it again.
type alerter struct {
	url      string
	capacity int64
	instance string
	client   *http.Client
	log      *slog.Logger
	outcomes *prometheus.CounterVec
	wake     chan struct{}

	mu    sync.Mutex
	told  refill.State
	queue []*alert
}

func newAlerter(s Settings, instance string, reg prometheus.Registerer, log *slog.Logger) *alerter {
	a := &alerter{
		url: s.AlertWebhook, capacity: s.PoolCapacity, instance: instance, log: log,
		client: &http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		outcomes: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_alerts_total", Help: "Alerts that the webhook took, tries that failed, and alerts dropped because too many waited.",
		}, []string{"outcome"}),
		wake: make(chan struct{}, 1), told: refill.StateFilling,
	}
	for _, outcome := range []string{"taken", "failed", "dropped"} {
		a.outcomes.WithLabelValues(outcome)
	}
	return a
}

// changed takes a new state into account; it does not block. Filling is neither an alarm
// nor the end of one: a pool that fills after an alarm is told of when it is ok, and one
// that fills at a start not at all.
func (a *alerter) changed(j refill.Judgement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j.State == refill.StateFilling || j.State == a.told {
		return
	}
	previous := a.told
	a.told = j.State
	if previous == refill.StateFilling && j.State == refill.StateOK {
		return
	}
	next := &alert{State: j.State, Previous: previous, CapacityKeys: a.capacity, Instance: a.instance, At: j.Since.UTC()}
	if j.Known {
		next.PoolKeys = &j.Pool.Keys
	}
	if runway, known := j.Runway(); known {
		next.RunwaySeconds = &runway
	}
	a.enqueue(next)
}

// enqueue drops the oldest of too many: what it said matters least by now. The caller holds mu.
func (a *alerter) enqueue(next *alert) {
	if len(a.queue) == maxAlerts {
		a.log.Error("an alert that the webhook never took is dropped", slog.String("state", string(a.queue[0].State)),
			slog.Time("at", a.queue[0].At))
		a.outcomes.WithLabelValues("dropped").Inc()
		a.queue = a.queue[1:]
	}
	a.queue = append(a.queue, next)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run posts until ctx ends, and then tries once more what is left.
func (a *alerter) run(ctx context.Context) error {
	defer a.client.CloseIdleConnections()
	gap := firstAlertGap
	for {
		next := a.front()
		var again <-chan time.Time
		switch {
		case next == nil:
			gap = firstAlertGap
		case a.deliver(ctx, next, gap == firstAlertGap):
			gap = firstAlertGap
			continue
		default:
			again = time.After(gap)
			gap = min(2*gap, maxAlertGap)
		}
		if !a.wait(ctx, again) {
			a.lastTry(ctx)
			return nil
		}
	}
}

// wait returns when it is time to try again, or to try what has just been queued; false
// when ctx has ended.
func (a *alerter) wait(ctx context.Context, again <-chan time.Time) bool {
	wake := a.wake
	if again != nil {
		wake = nil // whoever refuses one alert is not asked sooner for having two
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-again:
	}
	return true
}

// lastTry gives each alert that is left one more chance, in order, up to the first failure.
func (a *alerter) lastTry(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAlertTry)
	defer cancel()
	for next := a.front(); next != nil; next = a.front() {
		if !a.deliver(ctx, next, true) {
			a.log.Error("alerts that the webhook never took are lost with this process", slog.Int("alerts", a.waiting()))
			return
		}
	}
}

func (a *alerter) front() *alert {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		return nil
	}
	return a.queue[0]
}

func (a *alerter) waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue)
}
