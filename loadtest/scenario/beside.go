package scenario

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"keypool/loadtest"

	"github.com/jackc/pgx/v5/pgxpool"
)

// beside is something simple that takes part of what a request takes, to measure beside it.
type beside struct {
	name  string
	do    func(context.Context) loadtest.State
	close func()
}

// run does it at a rate for a while.
func (b *beside) run(ctx context.Context, rate float64, duration time.Duration, r *loadtest.Recorder) {
	loadtest.Pace(ctx, loadtest.Schedule{Rate: rate, Duration: duration}, 0, r, b.do)
}

// besideConns is how many connections the rows are inserted on.
const besideConns = 16

// inserts is one row a statement into a table like that of the links, in the same database,
// where the service has made that one already.
func inserts(ctx context.Context, url string) (*beside, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns = besideConns, besideConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, `CREATE TABLE beside (LIKE links INCLUDING ALL)`); err != nil {
		pool.Close()
		return nil, fmt.Errorf("make the table to insert into: %w", err)
	}
	insert := func(ctx context.Context) loadtest.State {
		ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
		defer cancel()
		code := rand.Text()
		if _, err := pool.Exec(ctx, `INSERT INTO beside (code, url, source, created_at) VALUES ($1, $2, 'pool', now())`, code, "https://loadtest.example/"+code); err != nil {
			return loadtest.Refused
		}
		return loadtest.Acknowledged
	}
	return &beside{name: "a single-row INSERT", do: insert, close: pool.Close}, nil
}

// redirects is a server, in this process, that answers all with the same redirect.
func redirects() *beside {
	const target = "https://loadtest.example/"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", target)
		w.WriteHeader(http.StatusFound)
	}))
	client := loadtest.NewClient(server.URL, 0)
	visits := loadtest.NewVisits(client)
	return &beside{
		name:  "a bare redirect",
		do:    func(ctx context.Context) loadtest.State { return visits.Visit(ctx, loadtest.Entry{URL: target}) },
		close: func() { client.Close(); server.Close() },
	}
}
