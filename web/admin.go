package web

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminConfig is what the admin handler is made of. None of its functions may block
// for more than about a second.
type AdminConfig struct {
	Gatherer prometheus.Gatherer
	Ready    func(context.Context) error // fails when the program cannot do its work
	Degraded func() bool                 // reports that it does so by other means than intended; nil: never
	Status   func() Status
	Instance string // names the program to people

	RestartBelow, PageBelow int64 // keys in the pool, where there is one: the levels of the dead man's switch

	Logger *slog.Logger // nil: nothing is logged
}

// Admin is the handler of the admin listener, which the public never reaches: metrics,
// health, profiles, and the state of the key supply for programs and for people. It may be
// used by any number of goroutines.
type Admin struct {
	cfg     AdminConfig
	mux     *http.ServeMux
	page    *template.Template
	shell   *shell
	history *history
	unready atomic.Bool // as the last probe found it

	streams     atomic.Int32 // of events, open at present
	sendTimeout time.Duration
}

// NewAdmin makes the handler; what its dashboard shows comes from Run.
func NewAdmin(cfg AdminConfig) *Admin {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Degraded == nil {
		cfg.Degraded = func() bool { return false }
	}
	a := &Admin{
		cfg:         cfg,
		mux:         http.NewServeMux(),
		page:        template.Must(template.ParseFS(assets, "assets/dashboard.html")),
		shell:       newShell([]string{"style.css", "dashboard.css"}, []string{"format.js", "chart.js", "strip.js", "dashboard.js"}),
		history:     newHistory(),
		sendTimeout: sendTimeout,
	}
	a.route()
	return a
}

// Run feeds the dashboard until ctx ends, which also ends every stream of events: a server
// that is shut down next does not wait for them. It may be called once; its error is nil.
func (a *Admin) Run(ctx context.Context) error {
	s := &sampler{cfg: a.cfg, history: a.history}
	s.run(ctx)
	return nil
}

// ServeHTTP answers a request on the admin listener.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

func (a *Admin) route() {
	mux := a.mux
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.cfg.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(a.cfg.Logger.Handler(), slog.LevelError),
	}))
	mux.HandleFunc("GET /livez", a.live)
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("GET /status", a.status)
	mux.HandleFunc("GET /{$}", a.dashboard)
	mux.HandleFunc("GET /events", a.events)
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, assets, "assets/favicon.ico")
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	// Not pprof.Cmdline: a secret may be a flag.
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol) // go tool pprof posts the addresses it asks about
}

// live answers as long as the process does.
func (a *Admin) live(w http.ResponseWriter, _ *http.Request) {
	a.report(writeHealth(w, false))
}

// ready answers as /healthz of the public listener does.
func (a *Admin) ready(w http.ResponseWriter, r *http.Request) {
	err := a.cfg.Ready(r.Context())
	a.note(r.Context(), err)
	if err == nil {
		a.report(writeHealth(w, a.cfg.Degraded()))
		return
	}
	p := unavailable()
	p.Type = typePrefix + p.Type
	w.Header().Set("Retry-After", strconv.Itoa(retrySeconds(err)))
	w.Header().Set("Cache-Control", "no-store")
	a.report(writeJSON(w, mediaProblem, p.Status, p))
}

// note logs what a probe found where it changed; probes come every few seconds.
func (a *Admin) note(ctx context.Context, err error) {
	was := a.unready.Swap(err != nil)
	switch {
	case err == nil && was:
		a.cfg.Logger.InfoContext(ctx, "ready again")
	case err != nil && was:
		a.cfg.Logger.DebugContext(ctx, "still not ready", "error", err)
	case err != nil:
		a.cfg.Logger.WarnContext(ctx, "not ready", "error", err)
	}
}

func (a *Admin) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	a.report(writeJSON(w, mediaJSON, http.StatusOK, a.cfg.Status()))
}

// dashboard is the same status for people. What its script draws comes from events.
func (a *Admin) dashboard(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	status := a.cfg.Status()
	view := struct {
		*shell
		Status
		Low      string // the fill below which the state is restart, in percent
		Instance string
	}{a.shell, status, status.percent(a.cfg.RestartBelow), a.cfg.Instance}
	a.report(a.shell.write(w, http.StatusOK, a.page, view))
}

// report logs that an answer could not be made or sent.
func (a *Admin) report(err error) {
	if err != nil {
		a.cfg.Logger.Error("answer not written", "error", err)
	}
}
