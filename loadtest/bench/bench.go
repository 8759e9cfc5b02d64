// Package bench measures the bars of the project: speed, memory and growth, each beside
// something known that is measured in the same run, because absolute figures drift with
// the machine.
//
// Every server is a process of its own, the bare handlers too, and the load generator for
// throughput is wrk, which is no part of the project. What is compared is measured in
// rounds, one after the other in each, so that a machine that drifts drifts for all alike.
//
// Invariant: a run with an answer that is known to be wrong is an error, not a figure. How
// much is known differs. Under wrk a status of 400 or above is seen, fewer rows than answers
// in the database, and fewer redirects than answers in the server's own count; the whole
// answer, with its Location, is only looked at once before the load. Whatever this program
// asks itself, look-ups and creations at a steady rate, is looked at in full.
//
// Vocabulary: a bar is one figure with its aim; a subject is what is measured in a round;
// a baseline is the subject that a bar is a ratio to; a yardstick is a figure without an
// aim, only there to compare with; a group is the bars that one experiment measures.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
)

// Options say what is measured, and how thoroughly. All of them have to be set but Only.
type Options struct {
	Programs string        // the directory of the built programs
	Only     []string      // names of groups; all when empty
	Rounds   int           // how often each subject is measured, 1 at the least
	Each     time.Duration // how long a subject is measured in a round, in whole seconds
	Full     bool          // 100,000,000 keys and links, where it is 20 and 10 million else

	Log func(line string) // told what is being done, and each figure; called by one goroutine
}

// group is an experiment. Bars that it returns together with an error are good, or have no
// figures.
type group struct {
	name    string
	measure func(context.Context, *run) ([]Bar, error)
}

// groups is every group in the order of the table. Those that burden the disk for long come
// last.
func groups() []group {
	return []group{
		{"create", create},
		{"redirect", redirect},
		{"latency", latency},
		{"keys", keys},
		{"memory", memory},
		{"refill", refill},
		{"start", start},
		{"random", random},
		{"growth", growth},
	}
}

// Groups are the names that Options.Only takes.
func Groups() []string {
	var names []string
	for _, g := range groups() {
		names = append(names, g.name)
	}
	return names
}

// run is one run over groups.
type run struct {
	Options
	dir    string // for what is written
	stores *stores
	end    []func() error // of what is kept for several groups
}

// Run measures, for minutes, and returns the bars that it could measure. The error joins
// those of the groups that could not be, or that got wrong answers; that a bar does not
// hold is none. Run leaves neither processes nor files behind.
func Run(ctx context.Context, o Options) (bars []Bar, err error) {
	for _, name := range o.Only {
		if !slices.Contains(Groups(), name) {
			return nil, fmt.Errorf("there is no group %q; these are: %s", name, strings.Join(Groups(), ", "))
		}
	}
	if o.Rounds < 1 || o.Each < time.Second || o.Each%time.Second != 0 {
		return nil, errors.New("it takes a round at the least, and whole seconds in each")
	}
	dir, err := os.MkdirTemp("", "keypool-bench-")
	if err != nil {
		return nil, err
	}
	r := &run{Options: o, dir: dir}
	defer func() { err = errors.Join(err, r.close()) }()
	var errs []error
	for _, g := range groups() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, g.name) {
			continue
		}
		r.Log("--- " + g.name)
		measured, err := finished(g.measure(ctx, r))
		bars = append(bars, measured...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", g.name, err))
			r.Log(g.name + " could not be measured: " + err.Error())
		}
		if ctx.Err() != nil {
			break
		}
	}
	return bars, errors.Join(errs...)
}

func (r *run) close() error {
	var errs []error
	for _, end := range slices.Backward(r.end) {
		errs = append(errs, end())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// onBed calls measure with a bed that is closed afterwards.
func (r *run) onBed(measure func(*testbed.Bed) ([]Bar, error)) (bars []Bar, err error) {
	bed, err := testbed.New(r.Programs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	return measure(bed)
}

// program is the path of a built program.
func (r *run) program(name string) string { return filepath.Join(r.Programs, name) }

// alternate measures all subjects in each round.
func (r *run) alternate(ctx context.Context, subjects ...rounds.Subject) ([]rounds.Series, error) {
	return rounds.Alternate(ctx, r.Rounds, r.Log, subjects...)
}
