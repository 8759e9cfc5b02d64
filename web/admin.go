package web

import (
	"context"
	"encoding/json"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyTimeout bounds a readiness check; an orchestrator asks again soon.
const readyTimeout = 2 * time.Second

// AdminConfig is what the admin handler is made of. All but Logger is required.
type AdminConfig struct {
	Gatherer prometheus.Gatherer
	Ready    func(context.Context) error  // fails when the program cannot do its work
	Status   func(context.Context) Status // must not block longer than its context
	Logger   *slog.Logger                 // nil: nothing is logged
}

type admin struct {
	AdminConfig
	page  *template.Template
	shell *shell
}

// NewAdmin makes the handler of the admin listener, which the public never
// reaches: metrics, health, profiles, and the state of the key supply for
// programs and for people. It may be used by any number of goroutines.
func NewAdmin(cfg AdminConfig) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
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
	a.json(w, mediaJSON, http.StatusOK, map[string]string{"status": "ok"})
}

func (a *admin) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := a.Ready(ctx); err != nil {
		a.Logger.Warn("not ready", "error", err)
		w.Header().Set("Retry-After", "1")
		p := unavailable()
		p.Type = typePrefix + p.Type
		a.json(w, mediaProblem, p.Status, p)
		return
	}
	a.json(w, mediaJSON, http.StatusOK, map[string]string{"status": "ok"})
}

func (a *admin) status(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	a.json(w, mediaJSON, http.StatusOK, a.Status(ctx))
}

// dashboard is the same status for people; its script fetches it anew each second.
func (a *admin) dashboard(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	w.Header().Set("Cache-Control", "no-store")
	view := struct {
		*shell
		Status
	}{a.shell, a.Status(ctx)}
	if err := a.shell.write(w, http.StatusOK, a.page, view); err != nil {
		a.Logger.Error("status page not written", "error", err)
	}
}

func (a *admin) json(w http.ResponseWriter, media string, status int, v any) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		a.Logger.Debug("answer not written", "error", err)
	}
}
