package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"keypool/internal/testenv/machine"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// askTimeout bounds a question to an admin listener, or to a program for its version.
const askTimeout = 5 * time.Second

// Program is one of the project's own programs as a process. It can be stopped, killed,
// frozen and started again on the same addresses; those methods are for one goroutine at
// a time, the others may be called concurrently with them.
type Program struct {
	*machine.Server
	Public string // http://host:port; nobody listens there for a worker
	Admin  string
}

// run starts the program name, and returns when up says that it is.
func (b *Bed) run(ctx context.Context, name string, settings []string, up func(context.Context, *Program) error) (*Program, error) {
	public, err := machine.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := machine.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, name+"-")
	if err != nil {
		return nil, err
	}
	p := &Program{Public: "http://" + public, Admin: "http://" + admin}
	p.Server, err = machine.Program{
		Path: filepath.Join(b.programs, name),
		Env:  append([]string{"LISTEN_ADDR=" + public, "ADMIN_ADDR=" + admin}, settings...),
		Dir:  dir,
		URL:  p.Public,
		Ping: func(ctx context.Context, _ string) error { return up(ctx, p) },
	}.Start(ctx)
	if err != nil {
		return nil, err
	}
	b.own(p)
	return p, nil
}

// Status is what the harness reads of /status; a nil member is unknown to the program.
type Status struct {
	State         string   `json:"state"`
	ServingFrom   *string  `json:"serving_from"`
	PoolKeys      *int64   `json:"pool_keys"`
	LocalKeys     *int64   `json:"local_keys"`
	RunwaySeconds *float64 `json:"runway_seconds"`
	Breaker       *string  `json:"breaker"`
}

// AskStatus asks the admin listener at the URL admin for its /status.
func AskStatus(ctx context.Context, admin string) (Status, error) {
	var s Status
	err := ask(ctx, admin+"/status", func(body io.Reader) error { return json.NewDecoder(body).Decode(&s) })
	return s, err
}

// Metrics are those of a program by their names, each with its labels.
type Metrics map[string]*dto.MetricFamily

// AskMetrics asks the admin listener at the URL admin for its /metrics.
func AskMetrics(ctx context.Context, admin string) (Metrics, error) {
	var m Metrics
	err := ask(ctx, admin+"/metrics", func(body io.Reader) (err error) {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		m, err = parser.TextToMetricFamilies(body)
		return err
	})
	return m, err
}

func ready(ctx context.Context, p *Program) error { return Ready(ctx, p.Admin) }

// Ready fails while the program at the URL admin cannot do its work.
func Ready(ctx context.Context, admin string) error {
	return ask(ctx, admin+"/readyz", func(io.Reader) error { return nil })
}

// ask reads an answer with read, on a connection of its own: there is none to go stale when
// the program is killed.
func ask(ctx context.Context, url string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // what was to be read was read or is an error by now
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", req.URL.Redacted(), res.Status)
	}
	if err := read(res.Body); err != nil {
		return fmt.Errorf("GET %s: %w", req.URL.Redacted(), err)
	}
	return nil
}
