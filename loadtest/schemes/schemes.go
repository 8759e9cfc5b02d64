// Package schemes sets every way to get codes side by side: the same server program with
// another KEY_SOURCE, under the same load, on the same machine, in one run.
//
// What can be timed is timed in rounds, all schemes one after the other in each; only what
// is not timed is done side by side. The links of all schemes are in one PostgreSQL that
// commits durably, each scheme's in a database of its own, and whatever needs a Redis has a
// database of the one Redis. Unless it is said otherwise FALLBACK=none: what a scheme cannot
// give, nobody gives.
//
// Invariant: every cell of every table was measured in this run or is computed from cells that
// were, or else it is empty. A scheme that could not be measured fails a claim.
//
// Vocabulary: a scheme is a key source with its settings; its supply is whom its keys come
// from, and a call is one round trip to the supply; its class is how its codes look to
// an index; a part is one experiment with all schemes.
package schemes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"keypool/internal/testenv/machine"
	"keypool/loadtest/report"
	"keypool/loadtest/rounds"
	"keypool/loadtest/scenario"
	"keypool/loadtest/testbed"
)

// Limit is how long the whole may take on two cores, once the programs are built: all schemes,
// timed as often and for as long as they are unless somebody asks for more.
const (
	Limit         = 10 * time.Minute
	DefaultRounds = 3
	DefaultEach   = 2 * time.Second
)

// Options say what is compared.
type Options struct {
	Programs string        // the directory of the built programs
	Only     []string      // names of schemes; all when empty
	Rounds   int           // how often each is timed, 1 at the least
	Each     time.Duration // how long each is timed in a round, by either load; in whole seconds
}

// Comparison is one run. Its scenarios are for one goroutine, in their order.
type Comparison struct {
	Options
	plan
	schemes []scheme
	started time.Time
	usual   bool                 // what Limit is about
	others  float64              // the share of the processors that other programs took, times the seconds, of the parts so far
	found   map[string]*findings // by scheme

	stage *stage     // nil while nobody wanted one
	runs  []*running // those of the parts codes and speed
}

// findings is what was found out about one scheme; what is nil was not.
type findings struct {
	rate, p99 rounds.Series // creations a second; ms
	best      rounds.Series // the rate as a share of the best of the same round
	calls     rounds.Series // a creation
	codes     *codesFound
	space     *spaceFound
	index     *indexFound
	skipped   *skippedFound
	outages   []outageFound
	memory    *memoryFound

	// The share of creations that was refused in the worst round, flat out and at the steady rate.
	refusedFlat, refused float64
}

// New makes a comparison. It fails when it could not run here, or a name is none of a
// scheme; where a server or wrk is missing, the error names it.
func New(o Options) (*Comparison, error) {
	if o.Rounds < 1 || o.Each < time.Second || o.Each%time.Second != 0 {
		return nil, errors.New("it takes a round at the least, and whole seconds in each")
	}
	c := &Comparison{Options: o, plan: full(), started: time.Now(), found: make(map[string]*findings)}
	for _, s := range all() {
		if len(o.Only) == 0 || slices.Contains(o.Only, s.name) {
			c.schemes = append(c.schemes, s)
			c.found[s.name] = &findings{}
		}
	}
	c.usual = len(c.schemes) == len(all()) && o.Rounds == DefaultRounds && o.Each == DefaultEach
	for _, name := range o.Only {
		if c.found[name] == nil {
			return nil, fmt.Errorf("there is no scheme %q; these are: %s", name, strings.Join(Names(), ", "))
		}
	}
	return c, o.possible()
}

// possible fails when this machine has not got what it takes.
func (o Options) possible() error {
	for _, program := range []string{"postgres", "redis-server", "wrk"} {
		if _, err := machine.LookPath(program); err != nil {
			return err
		}
	}
	bed, err := testbed.New(o.Programs) // only to see whether it could be made
	if err != nil {
		return err
	}
	return bed.Close()
}

// Names are those that Options.Only takes.
func Names() []string {
	var names []string
	for _, s := range all() {
		names = append(names, s.name)
	}
	return names
}

// Titles says of each scheme what it is.
func Titles() []report.Word {
	var words []report.Word
	for _, s := range all() {
		words = append(words, report.Word{Word: s.name, Says: s.title + "."})
	}
	return words
}

// Close ends whatever runs.
func (c *Comparison) Close() error {
	if c.stage == nil {
		return nil
	}
	return c.stage.close()
}

// part is one experiment with all schemes.
type part struct {
	name, title string
	lasts       time.Duration // with all schemes on two cores, about
	measures    bool          // it has to measure each scheme, or each that it can be about
	run         func(*experiment, context.Context) error
}

// parts are all parts in the order of the report.
func parts() []part {
	return []part{
		{"codes", "What codes tell", 20 * time.Second, true, (*experiment).codes},
		{"speed", "Creations", 240 * time.Second, true, (*experiment).speed},
		{"space", "As the space fills", 35 * time.Second, true, (*experiment).space},
		{"crashes", "Numbers that crashes skip", 45 * time.Second, true, (*experiment).crashes},
		{"outages", "Each dependency killed", 60 * time.Second, true, (*experiment).outages},
		{"index", "A million links in the store", 70 * time.Second, false, (*experiment).index},
		{"summary", "All schemes side by side, and INCR against KGS", time.Second, false, (*experiment).summary},
	}
}

// Scenarios are the parts, to be run in this order.
func (c *Comparison) Scenarios() []scenario.Scenario {
	var all []scenario.Scenario
	for _, p := range parts() {
		all = append(all, scenario.Scenario{Name: p.name, Title: p.title, Run: func(ctx context.Context, r *scenario.Run) (report.Scenario, error) {
			return c.execute(ctx, r, p)
		}})
	}
	return all
}
