//go:build drill

package sources

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keypool/loadtest"

	"golang.org/x/sync/errgroup"
)

const (
	takers = 32
	each   = 20 // links a taker
	kills  = 3
	rate   = 100 // creations per second beside what is done to a source

	look      = 20 * time.Millisecond // how often is looked
	patience  = 30 * time.Second      // for what takes a second or two on a quiet machine
	stopLimit = 10 * time.Second
)

// rule is what every source keeps, whatever it draws on.
type rule struct {
	name  string
	holds func(context.Context, *stand) error
}

// rules are those for the source of st, in the order in which they are tried.
func rules(st *stand) []rule {
	all := []rule{
		{"32 at once", unique},
		{"two processes", shared},
		{"stopped", stopped}, // before anybody dies: the dead keep keys in their batches
		{"killed", killed},
	}
	for _, f := range faults() {
		if len(st.draws) > 1 {
			all = append(all, rule{"one of two " + f.name, surviving(f)})
		}
		if len(st.draws) > 0 {
			all = append(all, rule{"all it draws on " + f.name, goingWithout(f)})
		}
	}
	return append(all, rule{"database killed", refusesAll}, rule{"load harness", harness}, rule{"accounts", accounts})
}

// conform tries the rules one after the other. What comes after one that is broken would
// only be about what that left.
func conform(t *testing.T, s source, programs string) {
	st := newStand(t, s, programs)
	for _, r := range rules(st) {
		holds := t.Run(r.name, func(t *testing.T) {
			if err := r.holds(t.Context(), st); err != nil {
				t.Error(err)
			}
		})
		if !holds {
			return
		}
	}
}

func TestSources(t *testing.T) {
	for _, s := range table() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			conform(t, s, programs.shipped)
		})
	}
}

// unique: no two of many takers at once get one code.
func unique(ctx context.Context, st *stand) error {
	return errors.Join(st.strict.take(ctx, takers, each), st.judge(ctx, st.helped))
}

// shared: nor do they from two processes at once.
func shared(ctx context.Context, st *stand) error {
	var g errgroup.Group
	for _, s := range st.servers() {
		g.Go(func() error { return s.take(ctx, takers, each) })
	}
	return errors.Join(g.Wait(), st.judge(ctx, st.helped, st.strict))
}

// killed: nor does a server that was killed and started again give what it gave before. The
// other one does not notice.
func killed(ctx context.Context, st *stand) error {
	return errors.Join(st.kill(ctx), st.judge(ctx, st.helped))
}

// kill kills the strict server under load, again and again.
func (st *stand) kill(ctx context.Context) error {
	beside, load := st.helped.begin(ctx), st.strict.begin(ctx)
	err := load.more(ctx, rate/4)
	for n := 0; n < kills && err == nil; n++ {
		if err = errors.Join(st.strict.Kill(), st.strict.Restart(ctx)); err == nil {
			err = load.more(ctx, rate/4)
		}
	}
	_, endErr := load.end()
	figures, besideErr := beside.end()
	if figures.Failed() > 0 {
		err = errors.Join(err, fmt.Errorf("creations failed on the server that was left alone: %+v", figures))
	}
	return errors.Join(err, endErr, besideErr)
}

// harness: the scenario "create" runs against it as against any other.
func harness(ctx context.Context, st *stand) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs.shipped, "loadtest"), "run",
		"--target", st.helped.Public, "--admin", st.helped.Admin, "--scenario=create",
		fmt.Sprintf("--rate=%d", rate), "--duration=1s", "--report", filepath.Join(st.dir, "report"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("loadtest run: %w; it said:\n%s", errors.Join(err, ctx.Err()), out)
	}
	return nil
}

// stopped: SIGTERM under load ends a server in order, and no key stays in its hands. When
// all are started again they go on.
func stopped(ctx context.Context, st *stand) error {
	for _, s := range st.servers() {
		load := s.begin(ctx)
		err := load.more(ctx, rate/4)
		began := time.Now()
		err = errors.Join(err, s.Stop())
		if took := time.Since(began); took > stopLimit {
			err = errors.Join(err, fmt.Errorf("the stop took %v", took))
		}
		_, endErr := load.end()
		if err := errors.Join(err, endErr, s.Ended()); err != nil {
			return fmt.Errorf("after SIGTERM: %w", err)
		}
	}
	accounts, err := st.bed.Audit(ctx, st.settings...)
	if err == nil && accounts.Held() > 0 {
		err = fmt.Errorf("the servers that were stopped have %d keys on record: %+v", accounts.Held(), accounts)
	}
	for _, w := range st.workers {
		if ended := errors.Join(w.Stop(), w.Ended(), w.Restart(ctx)); ended != nil {
			err = errors.Join(err, fmt.Errorf("kgs after SIGTERM: %w", ended))
		}
	}
	return errors.Join(err, st.helped.Restart(ctx), st.strict.Restart(ctx), st.awaitBoth(ctx))
}

// accounts: in the end every link is there, of all that was ever acknowledged, and what is
// known of the keys adds up. Nobody answers from memory any more.
func accounts(ctx context.Context, st *stand) error {
	for _, s := range st.servers() {
		s.judged = 0
		if err := errors.Join(s.Stop(), s.Ended()); err != nil {
			return fmt.Errorf("after SIGTERM: %w", err)
		}
	}
	if err := st.helped.Restart(ctx); err != nil {
		return err
	}
	err := errors.Join(st.judge(ctx, st.helped), st.audit(ctx))
	return errors.Join(err, st.helped.Stop(), st.audit(ctx))
}

// audit fails unless the accounts close.
func (st *stand) audit(ctx context.Context) error {
	_, err := st.bed.Audit(ctx, st.settings...)
	return err
}

// judge reads back, through each of the given servers, all links that were not read back
// yet, and looks at their codes.
func (st *stand) judge(ctx context.Context, through ...*server) error {
	var entries []loadtest.Entry
	var errs []error
	for _, s := range st.servers() {
		fresh := s.journal.Entries()[s.judged:]
		s.judged += len(fresh)
		entries = append(entries, fresh...)
		if s == st.strict {
			errs = append(errs, st.shape(fresh))
		}
	}
	for _, s := range through {
		findings, err := (&loadtest.Checker{Client: s.client}).Check(ctx, entries)
		if findings.Broken() > 0 || findings.Checked == 0 {
			err = errors.Join(err, fmt.Errorf("of %d links %d are lost, %d wrong, %d there twice, %d unread: %s", findings.Checked,
				findings.Lost, findings.Wrong, findings.Twice, findings.Unread, strings.Join(findings.Reports, "\n")))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// shape fails for a code that is not as the source's are said to be.
func (st *stand) shape(entries []loadtest.Entry) error {
	for _, e := range entries {
		if e.State == loadtest.Acknowledged && !st.code.MatchString(e.Code) {
			return fmt.Errorf("the code %q does not match %s", e.Code, st.code)
		}
	}
	return nil
}
