package keysource

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
	"keypool/loadtest/lab"

	"golang.org/x/sync/errgroup"
)

const (
	refusal  = time.Second     // the limit of a refusal
	refusing = 2 * time.Second // how long refusals are observed
	look     = 20 * time.Millisecond
)

// draw is one thing that a source draws on.
type draw struct {
	name    string // the URL of a database
	process interface {
		Kill()
		Freeze()
		Thaw()
	}
	start func() // after a kill
}

func drawOn(d *lab.Database) draw { return draw{d.URL, d, d.Restart} }

// fault is what happens to a draw.
type fault struct {
	name         string
	strike, mend func(draw)
}

func faults() []fault {
	return []fault{
		{"killed", func(d draw) { d.process.Kill() }, func(d draw) { d.start() }},
		{"frozen", func(d draw) { d.process.Freeze() }, func(d draw) { d.process.Thaw() }},
	}
}

func survives(st *stand, f fault) error {
	for i, d := range st.draws {
		s := st.strict
		s.load.Start(rate)
		err := s.unharmed(rate / 4)
		f.strike(d)
		err = errors.Join(err, s.unharmed(2*rate))
		f.mend(d)
		err = errors.Join(err, s.unharmed(rate))
		if err = errors.Join(err, noneFailed(true, s.load.Stop(), "")); err != nil {
			return fmt.Errorf("with draw %d %s: %w", i+1, f.name, err)
		}
	}
	return nil
}

func goesWithout(st *stand, f fault) error {
	st.helped.load.Start(rate)
	err := st.helped.more()
	for _, d := range st.draws {
		f.strike(d)
	}
	if st.option("damage") == "worker" {
		st.workers[0].Kill()
	}
	if err == nil {
		err = st.strict.runDry()
	}
	if err == nil {
		err = st.strict.refuses()
	}
	for _, d := range st.draws {
		f.mend(d)
	}
	if err == nil {
		err = st.awaitSource(st.strict)
	}
	err = errors.Join(err, noneFailed(true, st.helped.load.Stop(), " although there is a fallback"))
	if err != nil {
		return err
	}
	return st.awaitSource(st.helped)
}

func refusesAll(st *stand) error {
	st.helped.load.Start(rate)
	err := st.helped.more()
	st.postgres.Kill()
	st.helped.load.Stop()
	if err == nil {
		var both errgroup.Group
		for _, s := range st.servers() {
			both.Go(s.refuses)
		}
		err = both.Wait()
	}
	st.postgres.Restart()
	return errors.Join(err, st.awaitBoth(), st.check(st.strict))
}

// runDry takes keys until every taker was refused one.
func (s *server) runDry() error {
	deadline := time.Now().Add(patience)
	var all errgroup.Group
	for range takers {
		all.Go(func() error {
			for time.Now().Before(deadline) {
				entry, err := s.load.TryOne(s.st.Context())
				switch {
				case err != nil:
					return err
				case entry.State == loadtest.Refused:
					return nil
				case entry.State != loadtest.Acknowledged:
					return fmt.Errorf("a creation is neither made nor refused, it is %s: %s", entry.State, entry.Detail)
				}
			}
			return fmt.Errorf("after %v it still has keys", patience)
		})
	}
	return all.Wait()
}

// refuses observes refusals for a time and records the slowest.
func (s *server) refuses() error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < refusing; <-tick.C {
		took, err := s.refuse(s.st.Context())
		s.st.record.refused(took)
		if err != nil {
			return err
		}
	}
	return nil
}

// refuse fails unless a creation is answered with a 503 that says when to try again (RFC 9110,
// section 10.2.3) and what is wrong (RFC 9457).
func (s *server) refuse(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Public+"/shorten", strings.NewReader(`{"url":"https://loadtest.example/"}`))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // a kill cannot leave the connection stale
	begin := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }() // it was read or is an error by now
	var problem struct {
		Type, Title, Detail string
		Status              int
	}
	err = json.NewDecoder(res.Body).Decode(&problem)
	took = time.Since(begin)
	media, _, mediaErr := mime.ParseMediaType(res.Header.Get("Content-Type"))
	wait, waitErr := strconv.Atoi(res.Header.Get("Retry-After"))
	if err = errors.Join(err, mediaErr, waitErr); err != nil || res.StatusCode != http.StatusServiceUnavailable || media != "application/problem+json" ||
		wait < 1 || problem.Status != res.StatusCode || problem.Type == "" || problem.Title == "" || problem.Detail == "" {
		return took, fmt.Errorf("a creation without a key is answered %s, %v, %+v; %w", res.Status, res.Header, problem, err)
	}
	return took, nil
}

// awaitBoth waits for the source on both servers.
func (st *stand) awaitBoth() error {
	return errors.Join(st.awaitSource(st.helped), st.awaitSource(st.strict))
}

// awaitSource waits until s makes its links with keys of the source, by itself.
func (st *stand) awaitSource(s *server) error {
	return lab.Until(st.Context(), look, recovered, func(context.Context) (done bool, err error) {
		if err := s.fromSource(); err != nil {
			return false, fmt.Errorf("the source does not serve: %w", err)
		}
		return true, nil
	})
}

// fromSource makes some links and fails unless the keys of all but the first are of the source. The
// first one makes the server report its metric.
func (s *server) fromSource() (err error) {
	const links = 5
	var before, after float64
	for n := 0; n <= links && err == nil; n++ {
		err = s.create()
		if n == 0 && err == nil {
			before, err = s.TryCounter("kgs_keys_taken_total", "source", s.st.source.Label)
		}
	}
	if err == nil {
		after, err = s.TryCounter("kgs_keys_taken_total", "source", s.st.source.Label)
	}
	if err != nil {
		return err
	}
	status, err := s.TryStatus()
	if from := lab.Known(status.ServingFrom, "unknown"); err == nil && (after-before < links || from != "batch") {
		err = fmt.Errorf("of %d links only %v have keys labelled %s; the server serves from %s", links, after-before, s.st.source.Label, from)
	}
	return err
}
