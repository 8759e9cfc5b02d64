// Package admin serves the admin listener of every program: metrics, health, profiles,
// /status for programs, and a live dashboard for people. In a server it also serves the pages for links.
//
// Vocabulary: a status is the present state of the key source and its pool. A sample is the
// status and the rates of one second. The history is the samples of the last 15 minutes. A
// stream sends the history and then each new sample to one dashboard.
//
// Invariants:
//
//   - a status or a sample never contains a stale value: an unknown member is null or absent;
//   - a dashboard adds no load to the databases: the sampler reads only the memory of the process, and
//     the check of the readiness runs once a second, whether or not a dashboard is open;
//   - a slow dashboard delays neither the program nor another dashboard.
package admin

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"keypool/web/internal/media"
	"keypool/web/internal/reply"
	"keypool/web/internal/shell"
)

//go:embed assets
var assets embed.FS

// readyRetry is the Retry-After of a program that is not ready, in seconds.
const readyRetry = 1

// Config holds what the admin handler needs. Each function returns within about a second, with one exception: in a server
// with SQLite, Ready may block for about five seconds while another process holds the write lock of the database.
type Config struct {
	Gatherer prometheus.Gatherer
	Counters Counters
	Ready    func(context.Context) error // fails while the program cannot do its work; a nil Ready means always ready
	Degraded func() bool                 // reports whether the program works without one of its parts, such as the pool; nil means never
	Status   func() Status
	Instance string // name of this process for people

	// Links answers requests for /links and for the paths below /links. It is nil in a program
	// without links.
	Links http.Handler

	RestartBelow, PageBelow int64 // levels of the dead man's switch, in keys; 0 without a pool

	Logger *slog.Logger // if nil, nothing is logged
}

// Handler answers requests on the admin listener, which must not be public. It is safe
// for concurrent use.
type Handler struct {
	cfg     Config
	mux     *http.ServeMux
	page    *template.Template
	shell   *shell.Shell
	history *history
	unready atomic.Bool // whether the last request for /readyz got 503
	failing failing

	streams     atomic.Int32 // number of open streams
	sendTimeout time.Duration
}

// New returns a handler. Its dashboard shows samples only while Run runs.
func New(cfg Config) *Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Degraded == nil {
		cfg.Degraded = func() bool { return false }
	}
	if cfg.Ready == nil {
		cfg.Ready = func(context.Context) error { return nil }
	}
	h := &Handler{
		cfg:         cfg,
		mux:         http.NewServeMux(),
		page:        template.Must(template.ParseFS(assets, "assets/dashboard.html")),
		shell:       shell.New(assets, []string{"assets/dashboard.css"}, scripts()),
		history:     newHistory(),
		sendTimeout: sendTimeout,
	}
	h.route()
	return h
}

func scripts() []string {
	return []string{"assets/format.js", "assets/chart.js", "assets/strip.js", "assets/dashboard.js"}
}

// Run takes a sample for the dashboard and checks the readiness once a second, until ctx ends. Then it ends every
// stream, so that a later shutdown of the server does not wait for streams. Run must be called at most once. Run
// returns nil after the last call of Ready has returned.
func (h *Handler) Run(ctx context.Context) error {
	var checks sync.WaitGroup
	checks.Go(func() { h.failing.watch(ctx, h.cfg.Ready) })
	cfg := h.cfg
	cfg.Status = h.shown
	s := &sampler{cfg: cfg, history: h.history}
	s.run(ctx)
	checks.Wait()
	return nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isForeign(r) {
		h.report(foreign().Write(w))
		return
	}
	h.mux.ServeHTTP(w, r)
}

func (h *Handler) route() {
	mux := h.mux
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.GathererFunc(h.gather), promhttp.HandlerOpts{
		// gather logs its own errors. All other errors are errors of clients, such as a closed connection.
		ErrorLog: slog.NewLogLogger(h.cfg.Logger.Handler(), slog.LevelDebug),
	}))
	mux.HandleFunc("GET /livez", h.live)
	mux.HandleFunc("GET /readyz", h.ready)
	mux.HandleFunc("GET /status", h.status)
	mux.HandleFunc("GET /{$}", h.dashboard)
	mux.HandleFunc("GET /events", h.events)
	if h.cfg.Links != nil {
		mux.Handle("/links", h.cfg.Links)
		mux.Handle("/links/", h.cfg.Links)
	}
	mux.HandleFunc("GET /favicon.ico", h.favicon)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	// pprof.Cmdline has no route because a flag may hold a secret.
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol) // go tool pprof posts the addresses
}

// live answers 200 while the process runs.
func (h *Handler) live(w http.ResponseWriter, _ *http.Request) {
	h.report(reply.Health(w, false))
}

// ready answers 200 while the program can do its work, and otherwise 503. In a server, /healthz of
// the public listener has the same status.
func (h *Handler) ready(w http.ResponseWriter, r *http.Request) {
	err := h.cfg.Ready(r.Context())
	h.noteReadiness(r.Context(), err)
	if err == nil {
		h.report(reply.Health(w, h.cfg.Degraded()))
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(readyRetry))
	w.Header().Set("Cache-Control", "no-store")
	h.report(reply.Unavailable().Write(w))
}

// noteReadiness logs a change of the readiness. It logs a repeated error only at level DEBUG,
// because a supervisor requests /readyz every few seconds.
func (h *Handler) noteReadiness(ctx context.Context, err error) {
	was := h.unready.Swap(err != nil)
	switch {
	case err == nil && was:
		h.cfg.Logger.InfoContext(ctx, "ready again")
	case err != nil && was:
		h.cfg.Logger.DebugContext(ctx, "still not ready", "error", err)
	case err != nil:
		h.cfg.Logger.WarnContext(ctx, "not ready", "error", err)
	}
}

func (h *Handler) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	h.report(reply.JSON(w, media.JSON, http.StatusOK, h.cfg.Status()))
}

func (h *Handler) favicon(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "image/x-icon")
	h.report(reply.Send(w, http.StatusOK, shell.Favicon()))
}

// dashboard renders the status as a page. The page's script draws the charts from the stream /events.
func (h *Handler) dashboard(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	status := h.shown()
	view := struct {
		*shell.Shell
		Status
		Low      string // RestartBelow as a fill level, in percent; "" without a pool
		Instance string
		Links    bool
	}{h.shell, status, status.percent(h.cfg.RestartBelow), h.cfg.Instance, h.cfg.Links != nil}
	h.report(h.shell.Write(w, http.StatusOK, h.page, view))
}

// gather returns the metrics and logs an error.
func (h *Handler) gather() ([]*dto.MetricFamily, error) {
	families, err := h.cfg.Gatherer.Gather()
	if err != nil {
		h.cfg.Logger.Error("could not gather the metrics", "error", err)
	}
	return families, err
}

// report logs an answer that could not be encoded. An answer that was not sent is logged at level
// DEBUG, because a client may disconnect at any time.
func (h *Handler) report(err error) {
	switch {
	case errors.Is(err, reply.ErrNotSent):
		h.cfg.Logger.Debug("could not send an answer on the admin listener", "error", err)
	case err != nil:
		h.cfg.Logger.Error("could not encode an answer on the admin listener", "error", err)
	}
}
