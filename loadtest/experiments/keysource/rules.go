package keysource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/lab"

	"golang.org/x/sync/errgroup"
)

const (
	takers = 32
	each   = 20  // links of a taker
	kills  = 3   // of a server
	rate   = 100 // creations per second while a source is disturbed

	patience  = 30 * time.Second // for what takes a second or two on a quiet machine
	stopLimit = 10 * time.Second
	recovered = 15 * time.Second // the limit until a source serves again by itself
)

// server is one process of a source, with all links that were ever made on it.
type server struct {
	*lab.Program
	st      *stand
	load    *lab.Load
	checked int // entries that were read back
}

func newServer(st *stand, more ...string) *server {
	p := lab.Server(st, append(append([]string{}, st.settings...), more...)...)
	p.Start()
	return &server{Program: p, st: st, load: lab.Traffic(st, p)}
}

// create makes one link and fails when it is not acknowledged.
func (s *server) create() error {
	entry, err := s.load.TryOne(s.st.Context())
	if err == nil && entry.State != loadtest.Acknowledged {
		err = fmt.Errorf("a creation is %s: %s", entry.State, entry.Detail)
	}
	return err
}

// take has takers make links at once, each its next link as soon as it has the last.
func (s *server) take() error {
	var all errgroup.Group
	for range takers {
		all.Go(func() error {
			for range each {
				if err := s.create(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// more waits until some more links were made.
func (s *server) more() error { return s.until(rate/4, false) }

// unharmed waits until n more links were made, but fails as soon as a creation does.
func (s *server) unharmed(n int64) error { return s.until(n, true) }

func (s *server) until(n int64, unharmed bool) error {
	enough := s.load.Figures().Acknowledged + n
	made := lab.Happens(s.st, patience, func() bool {
		now := s.load.Figures()
		return now.Acknowledged >= enough || unharmed && now.Failed() > 0
	})
	now := s.load.Figures()
	if !made {
		return fmt.Errorf("after %v fewer than %d links were made: %+v", patience, n, now)
	}
	return noneFailed(unharmed, now, "")
}

// noneFailed is an error when a creation failed that must not.
func noneFailed(must bool, f loadtest.Figures, where string) error {
	if must && f.Failed() > 0 {
		return fmt.Errorf("creations failed%s: %d refused, %d unknown, %d unsent", where, f.Refused, f.Unknown, f.Unsent)
	}
	return nil
}

func unique(st *stand) error { return errors.Join(st.strict.take(), st.check(st.helped)) }

func shared(st *stand) error {
	var both errgroup.Group
	for _, s := range st.servers() {
		both.Go(s.take)
	}
	return errors.Join(both.Wait(), st.check(st.helped, st.strict))
}

// ends stops a program with SIGTERM.
func (st *stand) ends(p *lab.Program) error {
	p.Signal(syscall.SIGTERM)
	if !lab.Happens(st, stopLimit, p.Ended) {
		return fmt.Errorf("the program still runs %v after SIGTERM", stopLimit)
	}
	if status := p.Exit(stopLimit); status != 0 {
		return fmt.Errorf("the exit status after SIGTERM is %d", status)
	}
	return nil
}

func stopped(st *stand) error {
	for _, s := range st.servers() {
		s.load.Start(rate)
		err := errors.Join(s.more(), st.ends(s.Program))
		s.load.Stop()
		if err != nil {
			return err
		}
	}
	a := lab.Audit(st, st.settings...)
	if a.Held() > 0 || !a.Closes {
		return fmt.Errorf("the servers that were stopped have [%d] keys on record; %s", a.Held(), a.Problem())
	}
	for _, w := range st.workers {
		if err := st.ends(w); err != nil {
			return fmt.Errorf("kgs: %w", err)
		}
		w.Start()
	}
	st.helped.Start()
	st.strict.Start()
	return st.awaitBoth()
}

// killed slows every commit down to a tenth of a second, so that at any moment links wait for
// theirs: those that are acknowledged before their commit are lost.
func killed(st *stand) error {
	lab.Execute(st, st.postgres.URL, `ALTER ROLE CURRENT_USER SET commit_delay = 100000`)
	lab.Execute(st, st.postgres.URL, `ALTER ROLE CURRENT_USER SET commit_siblings = 0`)
	st.helped.load.Start(rate)
	st.strict.load.Start(rate)
	err := st.strict.more()
	for range kills {
		if err == nil {
			st.strict.Kill()
			st.strict.Start()
			err = st.strict.more()
		}
	}
	st.strict.load.Stop()
	err = errors.Join(err, noneFailed(true, st.helped.load.Stop(), " on the server that was left alone"))
	lab.Execute(st, st.postgres.URL, `ALTER ROLE CURRENT_USER RESET ALL`)
	st.strict.Kill() // its connections keep the slow commits
	st.strict.Start()
	return errors.Join(err, st.check(st.helped))
}

// harness runs the load test program against a server, as against any other service.
func harness(st *stand) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(st.Context(), 2*lab.Patience)
	defer cancel()
	dir := st.TempDir()
	cmd := exec.CommandContext(ctx, program, "run", "--target", st.helped.Public, "--admin", st.helped.Admin,
		"--only=load/create", fmt.Sprintf("--rate=%d", rate), "--duration=1s", "--report", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("loadtest run: %w; its output:\n%s", errors.Join(err, ctx.Err()), out)
	}
	_, err = os.Stat(filepath.Join(dir, "report.json")) // it did run
	return err
}

// accounts reads every link again, and closes the accounts while a server runs and when none does.
func accounts(st *stand) error {
	for _, s := range st.servers() {
		s.checked = 0
		if err := st.ends(s.Program); err != nil {
			return err
		}
	}
	if st.option("damage") == "ledger" {
		lab.Execute(st, st.postgres.URL, `DELETE FROM kgs_ranges WHERE id = (SELECT max(id) FROM kgs_ranges WHERE state = 'reserved')`)
	}
	st.helped.Start()
	running := lab.Audit(st, st.settings...)
	err := st.check(st.helped)
	err = errors.Join(err, st.ends(st.helped.Program))
	if ended := lab.Audit(st, st.settings...); !running.Closes || !ended.Closes {
		err = errors.Join(err, errors.New(running.Problem()+ended.Problem()))
	}
	return err
}

// check reads back, through each of the servers, all links that were not read back yet, and
// looks at the codes of the source.
func (st *stand) check(through ...*server) error {
	var entries []loadtest.Entry
	var errs []error
	for _, s := range st.servers() {
		fresh := s.load.Entries()[s.checked:]
		s.checked += len(fresh)
		entries = append(entries, fresh...)
		for _, e := range fresh {
			if s == st.strict && e.State == loadtest.Acknowledged && !st.code.MatchString(e.Code) {
				return fmt.Errorf("the code %q does not match %s", e.Code, st.code)
			}
		}
	}
	for _, s := range through {
		f, err := (&loadtest.Checker{Client: s.Client}).Check(st.Context(), entries)
		if f.Broken() > 0 || f.Checked == 0 {
			err = errors.Join(err, fmt.Errorf("of %d links %d are lost, %d wrong, %d there twice, %d unread: %s",
				f.Checked, f.Lost, f.Wrong, f.Twice, f.Unread, strings.Join(f.Reports, "\n")))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
