package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"keypool/loadtest/testbed"
)

// stand is what a scenario that can be run anywhere runs against: a deployment that is
// there, or a server of its own on the best servers that this machine has.
type stand struct {
	target string
	admin  string // "" when it cannot be reached
	climbs bool   // it may be loaded beyond the steady rate

	// Of a stand of our own; nil for a deployment, and what is not installed.
	bed      *testbed.Bed
	server   *testbed.Program
	postgres *testbed.Server
	redis    *testbed.Server
}

// stand finds or starts one; settings are for the server that it starts.
func (r *Run) stand(ctx context.Context, settings ...string) (*stand, error) {
	if r.Target != "" {
		return &stand{target: r.Target, admin: r.Admin, climbs: r.Climb}, nil
	}
	bed, err := testbed.New(r.Programs)
	if err != nil {
		return nil, err
	}
	s := &stand{bed: bed}
	if err := s.start(ctx, settings); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stand) start(ctx context.Context, settings []string) (err error) {
	if s.postgres, err = s.bed.Postgres(ctx); err != nil && !missing(err) {
		return err
	}
	if s.redis, err = s.bed.Redis(ctx); err != nil && !missing(err) {
		return err
	}
	if s.server, err = s.bed.Server(ctx, append(s.urls(), settings...)...); err != nil {
		return err
	}
	s.target, s.admin = s.server.Public, s.server.Admin
	return nil
}

// urls are the settings that name the servers.
func (s *stand) urls() []string {
	var urls []string
	if s.postgres != nil {
		urls = append(urls, "DATABASE_URL="+s.postgres.URL)
	}
	if s.redis != nil {
		urls = append(urls, "REDIS_URL="+s.redis.URL)
	}
	return urls
}

// ours says that this process started what it runs against.
func (s *stand) ours() bool { return s.bed != nil }

// settings say in the report what the service ran on.
func (s *stand) settings() map[string]string {
	if !s.ours() {
		settings := map[string]string{"target": redacted(s.target)}
		if !s.climbs {
			settings["beyond the steady rate"] = "not tried"
		}
		return settings
	}
	store, keys := "embedded SQLite", "memory-pool"
	if s.postgres != nil {
		store = "PostgreSQL, synchronous_commit=on"
	}
	if s.redis != nil {
		keys = "redis-pool"
	}
	return map[string]string{"store": store, "keys": keys}
}

// forget restarts a server of our own, so that what it answers from then on comes from its
// store and not from its cache.
func (s *stand) forget(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	if err := s.server.Restart(ctx); err != nil {
		return fmt.Errorf("restart the server before its links are read back: %w", err)
	}
	return nil
}

// redacted is a URL without its password.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "not a URL"
	}
	return u.Redacted()
}

// climb climbs where that may be done, and elsewhere has only the step of the steady load.
func (r *Run) climb(ctx context.Context, s *steady, each time.Duration) ([]step, error) {
	if r.Target == "" || r.Climb {
		return s.climb(ctx, each)
	}
	if s.total.Figures().Sent == 0 {
		return nil, nil
	}
	return []step{{Offered: s.rate, Seconds: s.seconds, Figures: s.total.Figures()}}, nil
}

func (s *stand) close() error {
	if !s.ours() {
		return nil
	}
	return s.bed.Close()
}
