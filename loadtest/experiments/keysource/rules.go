package keysource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
)

const (
	takers = 32
	each   = 20 // links of a taker
	kills  = 3  // of a server

	refusal  = time.Second     // the limit of a refusal
	refusing = 2 * time.Second // how long refusals are observed
)

func unique(st *stand) {
	st.must(st.strict.take())
	st.check(st.helped)
}

func shared(st *stand) {
	st.must(together(2, func(i int) error { return st.servers()[i].take() }))
	st.check(st.helped, st.strict)
}

// take has takers make links at once, each its next link as soon as it has the last.
func (s *server) take() error {
	return together(takers, func(int) error {
		for range each {
			if err := s.create(); err != nil {
				return err
			}
		}
		return nil
	})
}

func stopped(st *stand) {
	for _, s := range st.servers() {
		s.load.Start(rate)
		s.more(some)
		st.mustEnd(s.Program)
		s.load.Stop()
	}
	a := lab.Audit(st, st.settings...)
	if a.Held() > 0 || !a.Closes {
		st.must(fmt.Errorf("the servers that were stopped have [%d] keys on record; %s", a.Held(), a.Problem()))
	}
	for _, w := range st.workers {
		st.mustEnd(w)
		w.Start()
	}
	st.helped.Start()
	st.strict.Start()
	st.mustCome()
}

// killed slows every commit down to a tenth of a second, so that at any moment links wait for
// theirs: those that are acknowledged before their commit are lost.
func killed(st *stand) {
	lab.Execute(st, st.postgres.URL, `ALTER ROLE CURRENT_USER SET commit_delay = 100000`)
	lab.Execute(st, st.postgres.URL, `ALTER ROLE CURRENT_USER SET commit_siblings = 0`)
	st.helped.load.Start(rate)
	st.strict.load.Start(rate)
	st.strict.more(some)
	for range kills {
		st.strict.Kill()
		st.strict.Start()
		st.strict.more(some)
	}
	st.strict.load.Stop()
	st.serves(st.helped.load.Stop(), "on the server that was left alone")
	lab.Execute(st, st.postgres.URL, `ALTER ROLE CURRENT_USER RESET ALL`)
	st.strict.Kill() // its connections keep the slow commits
	st.strict.Start()
	st.check(st.helped)
}

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

func survives(st *stand, f fault) {
	s := st.strict
	for i, d := range st.draws {
		s.load.Start(rate)
		s.more(some)
		// A draw whose circuit is still open is no spare for the other one.
		closed := lab.Happens(st, recovered, func() bool {
			status, err := s.TryStatus()
			return err == nil && lab.Known(status.Breaker, "") == "closed"
		})
		if !closed {
			st.must(fmt.Errorf("after %v the circuit of a draw is still open", recovered))
		}
		f.strike(d)
		s.more(2 * rate)
		f.mend(d)
		s.more(rate)
		st.serves(s.load.Stop(), fmt.Sprintf("with draw %d %s", i+1, f.name))
	}
}

func goesWithout(st *stand, f fault) {
	st.helped.load.Start(rate)
	st.helped.more(some)
	for _, d := range st.draws {
		f.strike(d)
	}
	if st.option("damage") == "worker" {
		st.workers[0].Kill()
	}
	st.must(st.strict.runDry())
	st.mustRefuse(st.strict)
	for _, d := range st.draws {
		f.mend(d)
	}
	st.must(st.strict.awaitSource())
	st.serves(st.helped.load.Stop(), "although there is a fallback")
	st.must(st.helped.awaitSource())
}

func refusesAll(st *stand) {
	st.helped.load.Start(rate)
	st.helped.more(some)
	st.postgres.Kill()
	st.helped.load.Stop()
	st.mustRefuse(st.servers()...)
	st.postgres.Restart()
	st.mustCome()
	st.check(st.strict)
}

// runDry takes keys until every taker was refused one.
func (s *server) runDry() error {
	deadline := time.Now().Add(patience)
	return together(takers, func(int) error {
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

// mustRefuse observes refusals for a time and records the slowest.
func (st *stand) mustRefuse(servers ...*server) {
	err := together(len(servers), func(i int) error {
		tick := time.NewTicker(look)
		defer tick.Stop()
		for begin := time.Now(); time.Since(begin) < refusing; <-tick.C {
			if err := servers[i].refuse(st.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	for _, s := range servers {
		st.record.slowest = max(st.record.slowest, s.slowest)
	}
	st.must(err)
}

// refuse fails unless a creation is answered with a 503 that says when to try again (RFC 9110,
// section 10.2.3) and what is wrong (RFC 9457).
func (s *server) refuse(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Public+"/shorten", strings.NewReader(`{"url":"https://loadtest.example/"}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // a kill cannot leave the connection stale
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
	s.slowest = max(s.slowest, time.Since(begin))
	media, _, mediaErr := mime.ParseMediaType(res.Header.Get("Content-Type"))
	wait, waitErr := strconv.Atoi(res.Header.Get("Retry-After"))
	if err = errors.Join(err, mediaErr, waitErr); err != nil || res.StatusCode != http.StatusServiceUnavailable || media != "application/problem+json" ||
		wait < 1 || problem.Status != res.StatusCode || problem.Type == "" || problem.Title == "" || problem.Detail == "" {
		return fmt.Errorf("a creation without a key is answered %s, %v, %+v; %w", res.Status, res.Header, problem, err)
	}
	return nil
}

// harness runs the load test program against a server, as against any other service.
func harness(st *stand) {
	program, err := os.Executable()
	st.Must(err)
	ctx, cancel := context.WithTimeout(st.Context(), 2*lab.Patience)
	defer cancel()
	dir := st.TempDir()
	cmd := exec.CommandContext(ctx, program, "run", "--target", st.helped.Public, "--admin", st.helped.Admin,
		"--only=load/create", fmt.Sprintf("--rate=%d", rate), "--duration=1s", "--report", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		st.must(fmt.Errorf("loadtest run: %w; its output:\n%s", errors.Join(err, ctx.Err()), out))
	}
	_, err = os.Stat(filepath.Join(dir, "report.json")) // it did run
	st.must(err)
}

// accounts reads every link again, and closes the accounts while a server runs and when none does.
func accounts(st *stand) {
	for _, s := range st.servers() {
		s.checked = 0
		st.mustEnd(s.Program)
	}
	if st.option("damage") == "ledger" {
		lab.Execute(st, st.postgres.URL, `DELETE FROM kgs_ranges WHERE id = (SELECT max(id) FROM kgs_ranges WHERE state = 'reserved')`)
	}
	st.helped.Start()
	running := lab.Audit(st, st.settings...)
	st.check(st.helped)
	st.mustEnd(st.helped.Program)
	if ended := lab.Audit(st, st.settings...); !running.Closes || !ended.Closes {
		st.must(errors.New(running.Problem() + ended.Problem()))
	}
}
