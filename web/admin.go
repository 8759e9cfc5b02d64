package web

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync/atomic"

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
	Logger   *slog.Logger // nil: nothing is logged
}

type admin struct {
	AdminConfig
	page    *template.Template
	shell   *shell
	unready atomic.Bool // as the last probe found it
}

// NewAdmin makes the handler of the admin listener, which the public never
// reaches: metrics, health, profiles, and the state of the key supply for
// programs and for people. It may be used by any number of goroutines.
func NewAdmin(cfg AdminConfig) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Degraded == nil {
		cfg.Degraded = func() bool { return false }
	}
	a := &admin{
		AdminConfig: cfg,
		page:        template.Must(template.ParseFS(assets, "assets/status.html")),
		shell:       newShell("status.js"),
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelError),
	}))
	mux.HandleFunc("GET /livez", a.live)
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("GET /status", a.status)
	mux.HandleFunc("GET /{$}", a.dashboard)
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, assets, "assets/favicon.ico")
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol) // go tool pprof posts the addresses it asks about
	return mux
}

// live answers as long as the process does.
func (a *admin) live(w http.ResponseWriter, _ *http.Request) {
	a.report(writeHealth(w, false))
}

// ready answers as /healthz of the public listener does.
func (a *admin) ready(w http.ResponseWriter, r *http.Request) {
	err := a.Ready(r.Context())
	a.note(r.Context(), err)
	if err == nil {
		a.report(writeHealth(w, a.Degraded()))
		return
	}
	p := unavailable()
	p.Type = typePrefix + p.Type
	w.Header().Set("Retry-After", strconv.Itoa(retrySeconds(err)))
	w.Header().Set("Cache-Control", "no-store")
	a.report(writeJSON(w, mediaProblem, p.Status, p))
}

// note logs what a probe found where it changed; probes come every few seconds.
func (a *admin) note(ctx context.Context, err error) {
	was := a.unready.Swap(err != nil)
	switch {
	case err == nil && was:
		a.Logger.InfoContext(ctx, "ready again")
	case err != nil && was:
		a.Logger.DebugContext(ctx, "still not ready", "error", err)
	case err != nil:
		a.Logger.WarnContext(ctx, "not ready", "error", err)
	}
}

func (a *admin) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	a.report(writeJSON(w, mediaJSON, http.StatusOK, a.Status()))
}

// dashboard is the same status for people; its script fetches it anew each second.
func (a *admin) dashboard(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	view := struct {
		*shell
		Status
	}{a.shell, a.Status()}
	a.report(a.shell.write(w, http.StatusOK, a.page, view))
}

// report logs that an answer could not be made or sent.
func (a *admin) report(err error) {
	if err != nil {
		a.Logger.Error("answer not written", "error", err)
	}
}
