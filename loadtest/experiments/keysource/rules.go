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
	"slices"
	"strconv"
	"strings"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

const (
	takers = 32 // clients of a server that create links at the same time
	each   = 20 // links that each of these clients makes
	kills  = 3  // number of times that a server is killed

	refusal  = time.Second     // longest duration of a refusal
	refusing = 2 * time.Second // time for which refusals are observed
)

func unique(st *stand) {
	st.take(st.strict)
	st.check(st.helped)
}

func shared(st *stand) {
	st.take(st.servers()...)
	st.check(st.helped, st.strict)
}

// take lets many clients of each server make links at the same time. Each client makes its next link as soon as it has an
// answer. If a creation fails, the client makes another link instead, and the claim served records the failure.
func (st *stand) take(servers ...*server) {
	clients := takers * len(servers)
	entries := make([][]loadtest.Entry, clients)
	st.must(lab.Together(clients, clients, func(i int) error {
		for range each {
			if err := lab.Until(st.Context(), look, patience, func(context.Context) (bool, error) {
				entry, err := servers[i%len(servers)].load.TryOne(st.Context())
				entries[i] = append(entries[i], entry)
				return err == nil, err
			}); err != nil {
				return err
			}
		}
		return nil
	}))
	st.noteFailures(loadtest.Count(slices.Concat(entries...)), "while many clients created links at the same time")
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
		st.must(errors.New(strings.TrimSuffix(fmt.Sprintf("the stopped servers hold %d keys instead of 0; %s", a.Held(), a.Problem()), "; ")))
	}
	for _, w := range st.workers {
		st.mustEnd(w)
		w.Start()
	}
	st.helped.Start()
	st.strict.Start()
	st.mustRecover()
}

// killed kills a server under load several times. Every commit takes a tenth of a second, so some links
// wait for their commit when the server is killed. If the server has acknowledged a link before its
// commit, the kill loses the link.
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
	st.noteFailures(st.helped.load.Stop(), "on the server that was not killed")
	lab.Execute(st, st.postgres.URL, `ALTER ROLE CURRENT_USER RESET ALL`)
	st.strict.Kill() // the open connections of this server still have slow commits
	st.strict.Start()
	st.check(st.helped)
}

// fault is a way to disturb a component.
type fault struct {
	name         string
	strike, mend func(component)
}

func faults() []fault {
	return []fault{
		{"killed", func(c component) { c.process.Kill() }, func(c component) { c.start() }},
		{"frozen", func(c component) { c.process.Freeze() }, func(c component) { c.process.Thaw() }},
	}
}

func survives(st *stand, f fault) {
	s := st.strict
	for i, c := range st.components {
		s.load.Start(rate)
		s.more(some)
		// While the breaker of the server is open, one ticket database cannot replace the other one.
		closed := lab.Happens(st, recovered, func() bool {
			status, err := s.TryStatus()
			return err == nil && lab.Known(status.Breaker, "") == "closed"
		})
		if !closed {
			st.must(fmt.Errorf("the breaker of the ticket databases is not closed after %v", recovered))
		}
		f.strike(c)
		s.more(2 * rate)
		f.mend(c)
		s.more(rate)
		st.noteFailures(s.load.Stop(), fmt.Sprintf("while ticket database %d was %s", i+1, f.name))
	}
}

func goesWithout(st *stand, f fault) {
	st.helped.load.Start(rate)
	st.helped.more(some)
	for _, c := range st.components {
		f.strike(c)
	}
	if st.option("damage") == "worker" {
		st.workers[0].Kill()
	}
	st.must(st.strict.runDry())
	st.mustRefuse(st.strict)
	for _, c := range st.components {
		f.mend(c)
	}
	st.must(st.strict.awaitSource())
	st.noteFailures(st.helped.load.Stop(), "on the first server")
	st.must(st.helped.awaitSource())
}

func refusesAll(st *stand) {
	st.helped.load.Start(rate)
	st.helped.more(some)
	st.postgres.Kill()
	st.helped.load.Stop()
	st.mustRefuse(st.servers()...)
	st.postgres.Restart()
	st.mustRecover()
	st.check(st.strict)
}

// runDry makes links until each client has had a creation refused.
func (s *server) runDry() error {
	deadline := time.Now().Add(patience)
	return lab.Together(takers, takers, func(int) error {
		for time.Now().Before(deadline) {
			entry, err := s.load.TryOne(s.st.Context())
			switch {
			case entry.State == loadtest.Refused:
				return nil
			case err != nil:
				return fmt.Errorf("a creation is neither acknowledged nor refused: %w", err)
			}
		}
		return fmt.Errorf("the server still has keys after %v", patience)
	})
}

// mustRefuse requires that the servers refuse every creation for two seconds (refusing). It records the
// slowest refusal.
func (st *stand) mustRefuse(servers ...*server) {
	err := lab.Together(len(servers), len(servers), func(i int) error {
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

// refuse sends a creation, which the server must refuse with 503. The answer must say when to try again
// (RFC 9110, section 10.2.3) and what is wrong (RFC 9457). If it does not, refuse returns an error.
func (s *server) refuse(ctx context.Context) error {
	client := loadtest.NewClient(s.Public, patience) // no request may use a connection that was opened before a kill
	defer client.Close()
	begin := time.Now()
	answer, err := client.Send(ctx, http.MethodPost, "/shorten", nil, []byte(`{"url":"https://loadtest.example/"}`))
	if err != nil {
		return err
	}
	var problem struct {
		Type, Title, Detail string
		Status              int
	}
	err = json.Unmarshal(answer.Body, &problem)
	s.slowest = max(s.slowest, time.Since(begin))
	media, _, mediaErr := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	wait, waitErr := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err = errors.Join(err, mediaErr, waitErr); err != nil || answer.Status != http.StatusServiceUnavailable || media != "application/problem+json" ||
		wait < 1 || problem.Status != answer.Status || problem.Type == "" || problem.Title == "" || problem.Detail == "" {
		return errors.Join(fmt.Errorf("want a 503 with Retry-After and a problem document, got status %d, header %v, problem %+v", answer.Status, answer.Header, problem), err)
	}
	return nil
}

// harness runs the experiment load/create in another process, with the server as its target.
func harness(st *stand) {
	program, err := os.Executable()
	st.Must(err)
	ctx, cancel := context.WithTimeout(st.Context(), 2*lab.Patience)
	defer cancel()
	st.helped.AwaitReady(lab.Patience) // after an outage, a server may create links before it reports that it is ready
	dir := st.TempDir()
	cmd := exec.CommandContext(ctx, program, "run", "--target", st.helped.Public,
		"--only=load/create", fmt.Sprintf("--rate=%d", rate), "--duration=1s", "--report", dir)
	out, failed := cmd.CombinedOutput()
	result, err := os.Open(filepath.Join(dir, "report.json"))
	if err != nil { // the program did not run
		st.must(fmt.Errorf("loadtest run: %w; its output:\n%s", errors.Join(failed, ctx.Err(), err), out))
	}
	defer func() { _ = result.Close() }() // the file was only read
	r, err := report.Read(result)
	st.must(err)
	if failed != nil && !onlyUnserved(r) {
		st.must(fmt.Errorf("loadtest run: %w; its output:\n%s", errors.Join(failed, ctx.Err()), out))
	}
	st.record.watched++
	if failed != nil {
		var why []string
		for _, f := range r.Findings() {
			why = append(why, fmt.Sprintf("%s: %s", f.Name, f.Why))
		}
		st.record.unserved[st.rule] = strings.Join(why, "; ")
	}
}

// onlyUnserved reports whether the experiments of a run ended without an error and without a failed claim
// on correctness. If onlyUnserved returns true for a run that failed, the run failed only because creations were not
// served.
func onlyUnserved(r *report.Report) bool {
	for i := range r.Experiments {
		e := &r.Experiments[i]
		wrong := func(c report.Claim) bool { return c.Outcome == report.Failed && c.Kind == report.Correctness }
		if e.Error != "" || slices.ContainsFunc(e.Claims, wrong) {
			return false
		}
	}
	return len(r.Experiments) > 0
}

// accounts reads every link back. The accounts must close while a server runs and after it has stopped.
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
		st.must(errors.New(strings.Trim(running.Problem()+"; "+ended.Problem(), "; ")))
	}
}
