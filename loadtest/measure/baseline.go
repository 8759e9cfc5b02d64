package measure

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"

	"keypool/internal/testenv/machine"
	"keypool/loadtest"
	"keypool/loadtest/lab"
)

const (
	// Target is the URL that the links of baselines and bars lead to.
	Target = "https://go.dev/doc/effective_go"

	headerTimeout = 10 * time.Second // time limit for reading the header of a request
	roundTimeout  = time.Hour        // time limit of the request that measures one round; no round takes so long
	insertConns   = 16               // number of connections of [LoneInsert]
	insertPath    = "/baseline/insert"
	insertTable   = `CREATE TABLE IF NOT EXISTS baseline_links (code text COLLATE "C" PRIMARY KEY, url text NOT NULL, created_at timestamptz NOT NULL)`
	insertRow     = `INSERT INTO baseline_links (code, url, created_at) VALUES ($1, $2, $3)`
)

// Baseline is a simple operation with which a load is compared. Each round measures it after the load,
// at the same rate.
type Baseline struct {
	Name string
	Run  func(ctx context.Context, rate float64, d time.Duration) (Observed, error)
}

// Observed is the result of a baseline.
type Observed struct {
	Acknowledged int64
	Failed       int64
	P99          time.Duration // p99 of the latency, which begins when the request is due
	Reason       string        // reason of one failure
}

func observed(f loadtest.Figures) Observed {
	return Observed{Acknowledged: f.Acknowledged, Failed: f.Failed(), P99: f.Latency.P99}
}

// BareServer starts a process with two bare handlers and returns its URL. POST /shorten parses the JSON
// of a creation, stores nothing and answers with the JSON of a link. GET of any code redirects to
// [Target]. The process runs this program with the arguments `baseline --listen ADDR`. With these arguments, the
// program must call [ServeBare]. If env contains DATABASE_URL, the process also runs the statements of [LoneInsert].
func BareServer(r lab.T, env ...string) (url string) {
	path, err := os.Executable()
	if err != nil {
		r.Fatalf("find the path of this program: %v", err)
	}
	return lab.Other(r, env, func(addr string) (string, []string) { return path, []string{"baseline", "--listen", addr} }, bareRedirects)
}

// bareRedirects returns an error when a server does not redirect to [Target].
func bareRedirects(ctx context.Context, url string) error { return TryVisit(ctx, url, "any", Target) }

// LoneInsert returns a baseline of single-row INSERTs into a separate table. The parameter database is the URL of
// the PostgreSQL database that gets the table. A separate process sends the statements at the rate and measures
// them, so the latencies include no HTTP.
func LoneInsert(r lab.T, database string) Baseline {
	server := BareServer(r, "DATABASE_URL="+database)
	return Baseline{Name: "a single-row INSERT", Run: func(ctx context.Context, rate float64, d time.Duration) (o Observed, err error) {
		body, err := json.Marshal(loadtest.Schedule{Rate: rate, Duration: d})
		if err != nil {
			return o, err
		}
		client := loadtest.NewClient(server, roundTimeout)
		defer client.Close()
		answer, err := client.Send(ctx, http.MethodPost, insertPath, nil, body)
		if err != nil {
			return o, err
		}
		if err = json.Unmarshal(answer.Body, &o); err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("status %d", answer.Status)
		}
		return o, err
	}}
}

// BareRedirect returns a baseline in which the client of the harness requests redirects from the bare server.
func BareRedirect(r lab.T) Baseline {
	client := loadtest.NewClient(BareServer(r), 0)
	r.Cleanup(client.Close)
	visits := loadtest.NewVisits(client)
	return Baseline{Name: "a redirect without a look-up", Run: func(ctx context.Context, rate float64, d time.Duration) (Observed, error) {
		recorder := loadtest.NewRecorder()
		loadtest.Pace(ctx, loadtest.Schedule{Rate: rate, Duration: d}, 0, recorder, func(ctx context.Context) loadtest.State {
			return visits.Visit(ctx, loadtest.Entry{URL: Target, Outcome: loadtest.Outcome{Code: "any"}})
		})
		return observed(recorder.Figures()), nil
	}}
}

// ServeBare serves the baselines on addr until ctx ends. DATABASE_URL in the environment names
// the PostgreSQL of [LoneInsert].
func ServeBare(ctx context.Context, addr string) error {
	var inserts *pgxpool.Pool
	if database := os.Getenv("DATABASE_URL"); database != "" {
		var err error
		if inserts, err = connect(ctx, database); err != nil {
			return fmt.Errorf("connect to PostgreSQL for the baseline: %w", err)
		}
		defer inserts.Close()
	}
	server := &http.Server{Addr: addr, Handler: bareHandler(inserts), ReadHeaderTimeout: headerTimeout}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // the process is about to end, so broken connections do no harm
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func bareHandler(inserts *pgxpool.Pool) http.Handler {
	e := echo.New()
	e.POST("/shorten", func(c echo.Context) error {
		var v struct {
			URL string `json:"url"`
		}
		if err := c.Bind(&v); err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, map[string]string{
			"code": "fdMx0H", "short_url": "http://127.0.0.1:20000/fdMx0H", "url": v.URL, "created_at": "2026-11-21T08:48:17.724315Z",
		})
	})
	e.GET("/:code", func(c echo.Context) error { return c.Redirect(http.StatusFound, Target) })
	e.POST(insertPath, func(c echo.Context) error {
		var s loadtest.Schedule
		if err := c.Bind(&s); err != nil || s.Rate <= 0 || inserts == nil {
			return echo.NewHTTPError(http.StatusBadRequest, "the schedule or the database is missing")
		}
		return c.JSON(http.StatusOK, insert(c.Request().Context(), inserts, s))
	})
	return e
}

// insert runs INSERT statements by the schedule s. The end of ctx also cancels running statements.
func insert(ctx context.Context, pool *pgxpool.Pool, s loadtest.Schedule) Observed {
	recorder, reason := loadtest.NewRecorder(), atomic.Value{}
	loadtest.Pace(ctx, s, 0, recorder, func(context.Context) loadtest.State {
		ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
		defer cancel()
		if _, err := pool.Exec(ctx, insertRow, rand.Text()[:10], Target, time.Now()); err != nil {
			reason.Store(err.Error())
			return loadtest.Refused
		}
		return loadtest.Acknowledged
	})
	o := observed(recorder.Figures())
	o.Reason, _ = reason.Load().(string)
	return o
}

// connect creates the table and opens all connections before the first measurement, so that no statement
// waits until a connection is open.
func connect(ctx context.Context, database string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = insertConns, insertConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err = pool.Exec(ctx, insertTable); err == nil {
		err = lab.Until(ctx, 10*time.Millisecond, time.Minute, func(context.Context) (bool, error) {
			return pool.Stat().IdleConns() == insertConns, nil
		})
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// nginxConf makes nginx keep connections open. nginx writes only temporary files, and only into its
// directory.
const nginxConf = `daemon off;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	keepalive_requests 1000000000;
	server { listen %[2]s; location / { return 302 %[3]s; } }
}
`

// Nginx starts an nginx that answers every request with a redirect to [Target], and returns
// its URL. It needs nginx ([lab.Installed]).
func Nginx(r lab.T) (url string) {
	path, err := machine.LookPath("nginx")
	if err != nil {
		r.Fatalf("start nginx: %v", err)
	}
	dir := r.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	return lab.Other(r, nil, func(addr string) (string, []string) {
		if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, addr, Target), 0o600); err != nil {
			r.Fatalf("configure nginx: %v", err)
		}
		return path, []string{"-p", dir, "-c", conf}
	}, bareRedirects)
}
