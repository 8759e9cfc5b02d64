//go:build drill

package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/testbed"

	"golang.org/x/sync/errgroup"
)

const (
	refusal   = time.Second      // within what time a creation is refused
	refusing  = 2 * time.Second  // how long it is looked at
	recovered = 15 * time.Second // within what time a source is back by itself
)

// fault is what happens to something that a source draws on.
type fault struct {
	name         string
	strike, mend func(context.Context, *testbed.Server) error
}

func faults() []fault {
	return []fault{
		{
			"killed",
			func(_ context.Context, s *testbed.Server) error { return s.Kill() },
			func(ctx context.Context, s *testbed.Server) error { return s.Restart(ctx) },
		},
		{
			"frozen",
			func(_ context.Context, s *testbed.Server) error { return s.Pause() },
			func(_ context.Context, s *testbed.Server) error { return s.Resume() },
		},
	}
}

// surviving is survives of one fault.
func surviving(f fault) func(context.Context, *stand) error {
	return func(ctx context.Context, st *stand) error { return survives(ctx, st, f) }
}

// goingWithout is goesWithout of one fault.
func goingWithout(f fault) func(context.Context, *stand) error {
	return func(ctx context.Context, st *stand) error { return goesWithout(ctx, st, f) }
}

// survives: of two that a source draws on either one will do.
func survives(ctx context.Context, st *stand, f fault) error {
	for _, d := range st.draws {
		load := st.strict.begin(ctx)
		err := errors.Join(load.unharmed(ctx, rate/4), f.strike(ctx, d), load.unharmed(ctx, 2*rate), f.mend(ctx, d), load.unharmed(ctx, rate))
		figures, endErr := load.end()
		if err = errors.Join(err, endErr); err == nil && figures.Failed() > 0 {
			err = fmt.Errorf("creations failed: %+v", figures)
		}
		if err != nil {
			return fmt.Errorf("with %s %s: %w", d.Addr, f.name, err)
		}
	}
	return nil
}

// goesWithout: while all is away that a source draws on, links are made by the fallback, and
// by a server without one they are refused, clearly and soon; afterwards the source is back.
func goesWithout(ctx context.Context, st *stand, f fault) error {
	beside := st.helped.begin(ctx)
	err := beside.more(ctx, rate/4)
	for _, d := range st.draws {
		err = errors.Join(err, f.strike(ctx, d))
	}
	if err == nil {
		err = st.strict.runDry(ctx)
	}
	if err == nil {
		err = st.strict.mustRefuse(ctx)
	}
	for _, d := range st.draws {
		err = errors.Join(err, f.mend(ctx, d))
	}
	if err == nil {
		err = st.awaitSource(ctx, st.strict)
	}
	figures, endErr := beside.end()
	if figures.Failed() > 0 {
		err = errors.Join(err, fmt.Errorf("creations failed although there is a fallback: %+v", figures))
	}
	if err := errors.Join(err, endErr); err != nil {
		return err
	}
	return st.awaitSource(ctx, st.helped)
}

// refusesAll: while the database is away no link can be kept, and so every one is refused.
func refusesAll(ctx context.Context, st *stand) error {
	load := st.helped.begin(ctx)
	err := errors.Join(load.more(ctx, rate/4), st.postgres.Kill())
	_, endErr := load.end()
	if err = errors.Join(err, endErr); err == nil {
		var g errgroup.Group
		for _, s := range st.servers() {
			g.Go(func() error { return s.mustRefuse(ctx) })
		}
		err = g.Wait()
	}
	if err := errors.Join(err, st.postgres.Restart(ctx)); err != nil {
		return err
	}
	return errors.Join(st.awaitBoth(ctx), st.judge(ctx, st.strict))
}

// runDry takes keys until there are none left, and returns when every taker was refused one.
func (s *server) runDry(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	var g errgroup.Group
	for range takers {
		g.Go(func() error {
			for time.Now().Before(deadline) {
				outcome, err := s.create(ctx)
				switch {
				case err != nil:
					return err
				case outcome.State == loadtest.Refused:
					return nil
				case outcome.State != loadtest.Acknowledged:
					return fmt.Errorf("a creation is neither made nor refused, it is %s: %s", outcome.State, outcome.Detail)
				}
			}
			return fmt.Errorf("after %v it has keys still", patience)
		})
	}
	return g.Wait()
}

// mustRefuse looks for a time at how creations are refused.
func (s *server) mustRefuse(ctx context.Context) error {
	for begin := time.Now(); time.Since(begin) < refusing; {
		if err := s.refuses(ctx); err != nil {
			return err
		}
		if err := testbed.Pause(ctx, look); err != nil {
			return err
		}
	}
	return nil
}

// refuses fails unless a creation is answered in time, with a 503 that says when to try
// again (RFC 9110 section 10.2.3) and what is wrong (RFC 9457).
func (s *server) refuses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Public+"/shorten", strings.NewReader(`{"url":"https://loadtest.example/"}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // there is no connection to go stale in a kill
	begin := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // it was read or is an error by now
	var problem struct {
		Type, Title, Detail string
		Status              int
	}
	err = json.NewDecoder(res.Body).Decode(&problem)
	took := time.Since(begin)
	media, _, mediaErr := mime.ParseMediaType(res.Header.Get("Content-Type"))
	wait, waitErr := strconv.Atoi(res.Header.Get("Retry-After"))
	switch {
	case errors.Join(err, mediaErr, waitErr) != nil || res.StatusCode != http.StatusServiceUnavailable || media != "application/problem+json" ||
		wait < 1 || problem.Status != res.StatusCode || problem.Type == "" || problem.Title == "" || problem.Detail == "":
		return fmt.Errorf("a creation without keys is answered %s, %v, %+v; %w", res.Status, res.Header, problem, errors.Join(err, mediaErr, waitErr))
	case took > refusal:
		return fmt.Errorf("a creation without keys is refused after %v, which is over %v", took, refusal)
	}
	return nil
}

// awaitSource waits until s makes its links with keys of the source, by itself.
func (st *stand) awaitSource(ctx context.Context, s *server) error {
	return testbed.Until(ctx, look, recovered, func(ctx context.Context) (done bool, err error) {
		if err := s.fromSource(ctx, st.source.label); err != nil {
			return false, fmt.Errorf("the source does not serve: %w", err)
		}
		return true, nil
	})
}

// awaitBoth is awaitSource of both servers.
func (st *stand) awaitBoth(ctx context.Context) error {
	return errors.Join(st.awaitSource(ctx, st.helped), st.awaitSource(ctx, st.strict))
}

// fromSource makes some links and fails unless all of their keys are of the source.
func (s *server) fromSource(ctx context.Context, label string) error {
	const links = 5
	before, err := s.taken(ctx)
	if err != nil {
		return err
	}
	for range links {
		outcome, err := s.create(ctx)
		if err != nil {
			return err
		}
		if outcome.State != loadtest.Acknowledged {
			return fmt.Errorf("a creation was %s: %s", outcome.State, outcome.Detail)
		}
	}
	after, err := s.taken(ctx)
	if err != nil {
		return err
	}
	status, err := testbed.AskStatus(ctx, s.Admin)
	if err != nil {
		return err
	}
	if got := after[label] - before[label]; got < links || status.ServingFrom == nil || *status.ServingFrom != "batch" {
		return fmt.Errorf("of %d keys %v are of %s; taken by source %v, status %+v", links, got, label, after, status)
	}
	return nil
}

// taken is how many keys were taken of each source, as the program counts.
func (s *server) taken(ctx context.Context) (map[string]float64, error) {
	metrics, err := testbed.AskMetrics(ctx, s.Admin)
	if err != nil {
		return nil, err
	}
	taken := make(map[string]float64)
	for _, m := range metrics["kgs_keys_taken_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			taken[l.GetValue()] = m.GetCounter().GetValue()
		}
	}
	return taken, nil
}
