package keysource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
)

const (
	rate = 100      // creations per second while a key source is disturbed
	some = rate / 4 // number of links after which a load counts as begun

	patience  = 30 * time.Second      // time limit of steps that take a second or two on an idle machine
	stopLimit = 10 * time.Second      // longest time from SIGTERM to the exit
	recovered = 15 * time.Second      // longest time until a key source serves again by itself
	look      = 20 * time.Millisecond // pause between two checks
)

// stand holds a key source under test, its servers, and the components that it needs (see component).
type stand struct {
	*experiment.T
	source     sources.Source
	record     *record
	rule       string // the name of the rule that is tested now
	code       *regexp.Regexp
	postgres   *lab.Database
	settings   []string // settings of both servers
	components []component
	workers    []*lab.Program // programs of this project that the key source needs

	helped *server // the server with the default fallback
	strict *server // the server without a fallback, whose codes all come from the key source
}

// server is one process that uses the key source, with all links that were made on it.
type server struct {
	*lab.Program
	st      *stand
	load    *lab.Load
	checked int           // number of entries that were read back
	slowest time.Duration // duration of the slowest refusal by this server
}

// component is a program that a key source needs, besides the database of the links.
type component struct {
	name    string // the URL of a database, or a description
	process interface {
		Kill()
		Freeze()
		Thaw()
	}
	start func() // starts the process again after a kill
}

func componentOn(d *lab.Database) component { return component{d.URL, d, d.Restart} }

// newStand starts all programs. It returns when both servers make links with keys of the key source.
func newStand(t *experiment.T, s sources.Source, rec *record) *stand {
	st := &stand{T: t, source: s, record: rec, code: regexp.MustCompile("^(?:" + s.Code + ")$"), postgres: lab.Postgres(t)}
	at := &sources.Supply{Links: st.postgres.URL}
	if s.Redis {
		redis := lab.Redis(t) // this Redis loses all data when it is killed
		at.Redis = redis.URL
		st.components = append(st.components, componentOn(redis))
	}
	if s.Tickets {
		for i := range at.Tickets {
			tickets := lab.Postgres(t)
			at.Tickets[i] = tickets.URL
			st.components = append(st.components, componentOn(tickets))
		}
	}
	if s.Service {
		at.Keys = lab.CreateDatabase(t, st.postgres.URL, "kgs", "")
	}
	st.settings = s.Connect(st, at, "KGS_POOL_CAPACITY=20000", "KGS_BATCH_MAX=500") // the sizes are small, because no rule depends on them
	if at.Service != nil {
		st.workers = []*lab.Program{at.Service}
		st.components = append(st.components, component{"the key service", at.Service, at.Service.Start})
	}
	if st.option("damage") == "worker" {
		worker := lab.Worker(st, st.settings...)
		worker.Start()
		st.workers = []*lab.Program{worker}
	}
	st.helped, st.strict = newServer(st), newServer(st, "FALLBACK=none")
	for _, s := range st.servers() {
		if err := s.awaitSource(); err != nil {
			t.Fatalf("start the servers: %w", err)
		}
	}
	return st
}

func newServer(st *stand, more ...string) *server {
	p := lab.Server(st, slices.Concat(st.settings, more)...)
	p.Start()
	return &server{Program: p, st: st, load: lab.Traffic(st, p)}
}

func (st *stand) servers() []*server { return []*server{st.helped, st.strict} }

// option returns the value of a setting that the control has for the experiment. The names of these settings, such as
// "rule", are in lower case. option returns "" if the control has no such setting.
func (st *stand) option(name string) string {
	for _, s := range st.T.Settings() {
		if value, ok := strings.CutPrefix(s, name+"="); ok {
			return value
		}
	}
	return ""
}

// Settings returns the settings that the control has for the programs. ${COMPONENT} stands for the name of the first
// component, such as the URL of a ticket database.
func (st *stand) Settings() (settings []string) {
	for _, s := range st.T.Settings() {
		if s[0] >= 'a' && s[0] <= 'z' {
			continue
		}
		settings = append(settings, os.Expand(s, func(string) string { return st.components[0].name }))
	}
	return slices.Clip(settings)
}

// must refutes the current rule and ends the run if err is not nil. After an interruption it does
// not refute the rule, because the interruption may be the cause of err.
func (st *stand) must(err error) {
	if err == nil {
		return
	}
	st.Must(st.Context().Err())
	st.Logf("%s: %v\nthe log of the server without a fallback:\n%s", st.rule, err, st.strict.Tail())
	st.Refute(st.rule, "%v", err)
}

// noteFailures records the failed creations of a load in which no creation may fail. The parameter where describes the
// load, such as "on the first server".
func (st *stand) noteFailures(f loadtest.Figures, where string) {
	st.record.watched++
	if f.Failed() > 0 {
		st.record.unserved[st.rule] = fmt.Sprintf("%s, %d creations were refused, %d have an unknown outcome, and %d were not sent", where, f.Refused, f.Unknown, f.Unsent)
	}
}

// mustEnd stops a program with SIGTERM and requires the exit status 0.
func (st *stand) mustEnd(p *lab.Program) {
	p.Signal(syscall.SIGTERM)
	if !lab.Happens(st, stopLimit, p.Ended) {
		st.must(fmt.Errorf("the program at %s still runs %v after SIGTERM", p.Admin, stopLimit))
	}
	if status := p.Exit(stopLimit); status != 0 {
		st.must(fmt.Errorf("the exit status after SIGTERM is %d, want 0; the log:\n%s", status, p.Tail()))
	}
}

// mustRecover requires that both servers make links with keys of the key source again.
func (st *stand) mustRecover() {
	for _, s := range st.servers() {
		st.must(s.awaitSource())
	}
}

// check reads back, through each of the given servers, all links that were not read back yet. It
// also checks the form of the codes of the key source.
func (st *stand) check(through ...*server) {
	var entries []loadtest.Entry
	for _, s := range st.servers() {
		fresh := s.load.Entries()[s.checked:]
		s.checked += len(fresh)
		entries = append(entries, fresh...)
		for _, e := range fresh {
			if s == st.strict && e.State == loadtest.Acknowledged && !st.code.MatchString(e.Code) {
				st.must(fmt.Errorf("the code %q does not match %s", e.Code, st.code))
			}
		}
	}
	for _, s := range through {
		f, err := (&loadtest.Checker{Client: s.Client}).Check(st.Context(), entries)
		if f.Broken() > 0 || f.Checked == 0 {
			err = errors.Join(err, fmt.Errorf("of %d checked links, %d are lost, %d lead to a wrong URL, %d are duplicates, and %d cannot be read: %s",
				f.Checked, f.Lost, f.Wrong, f.Twice, f.Unread, strings.Join(f.Reports, "\n")))
		}
		st.must(err)
	}
}

// more waits until n more links were made.
func (s *server) more(n int64) {
	enough := s.load.Figures().Acknowledged + n
	if !lab.Happens(s.st, patience, func() bool { return s.load.Figures().Acknowledged >= enough }) {
		f := s.load.Figures()
		s.st.must(fmt.Errorf("the server made fewer than %d further links in %v: so far, %d creations were sent, %d were acknowledged and %d were refused",
			n, patience, f.Sent, f.Acknowledged, f.Refused))
	}
}

// awaitSource waits until s makes its links with keys of the key source, without intervention.
func (s *server) awaitSource() error {
	return lab.Until(s.st.Context(), look, recovered, func(context.Context) (done bool, err error) {
		if err := s.fromSource(); err != nil {
			return false, fmt.Errorf("the key source gives no key: %w", err)
		}
		return true, nil
	})
}

// fromSource makes six links. It returns an error if one of the last five links has a code that did not come from the
// key source. It ignores the first link, because the server reports the counter of taken keys only after it has taken its
// first key.
func (s *server) fromSource() error {
	const links = 5
	var taken [2]float64
	for i, n := range []int{1, links} {
		for range n {
			if _, err := s.load.TryOne(s.st.Context()); err != nil {
				return err
			}
		}
		var err error
		if taken[i], err = s.TryCounter("kgs_keys_taken_total", "source", s.st.source.Label); err != nil {
			return err
		}
	}
	status, err := s.TryStatus()
	if from := lab.Known(status.ServingFrom, "unknown"); err == nil && (taken[1]-taken[0] < links || from != "batch") {
		err = fmt.Errorf("%v of %d links have keys labelled %s, want all; the server serves from %s", taken[1]-taken[0], links, s.st.source.Label, from)
	}
	return err
}
