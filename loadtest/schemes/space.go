package schemes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"keypool/loadtest"
	"keypool/loadtest/scenario"
	"keypool/loadtest/testbed"

	"golang.org/x/sync/errgroup"
)

const (
	spaceLength = 3       // digits of base 62: a space that is filled in a second
	spaceSize   = 238_328 // 62^3
	spacePool   = 5_000   // keys in a pool: fewer than are left in the end
	spaceWidth  = 8       // creations at a time
	// sameURL is how often a hash is asked for the same URL.
	sameURL = 100
)

// spaceShares is how full the space is, level by level.
func spaceShares() []float64 { return []float64{0, 0.5, 0.9} }

// fullest is the last of them.
func fullest() float64 { return slices.Max(spaceShares()) }

// The claims of the part.
const (
	claimOneAttempt = "one attempt however full"
	claimChance     = "chance takes 1/(1-f) attempts"
	claimSameURL    = "the same URL takes a hash one attempt more each time"
)

// spaceFound is what happens to a scheme as its space fills.
type spaceFound struct {
	attempts  []float64 // a creation, by shares; 0 where it was not measured
	conflicts []float64 // a creation
	repeated  *float64  // attempts a creation of the same URL over and over, of a hash alone
}

// space lets each scheme make links where a share of the codes of three digits is in use,
// given out by the scheme itself.
func (e *experiment) space(ctx context.Context) error {
	e.enterSpace()
	templates, err := e.templates(ctx)
	if err != nil {
		return err
	}
	for _, s := range e.schemes {
		e.found[s.name].space = &spaceFound{attempts: make([]float64, len(spaceShares())), conflicts: make([]float64, len(spaceShares()))}
	}
	for level := range spaceShares() {
		if err := e.spaceAt(ctx, level, templates[level]); err != nil || ctx.Err() != nil {
			return err
		}
	}
	e.JudgeLinks(e.links)
	e.judgeSpace()
	e.drawSpace()
	return nil
}

// spaceAt lets the schemes make links where one of the shares is in use, as in the database
// template.
func (e *experiment) spaceAt(ctx context.Context, level int, template string) error {
	share := spaceShares()[level]
	runs := e.startAll(ctx, e.fillable(share), setup{
		template: template, used: int64(share * spaceSize),
		settings: []string{fmt.Sprintf("CODE_LENGTH=%d", spaceLength), fmt.Sprintf("KGS_POOL_CAPACITY=%d", spacePool), "KGS_PERMUTE=false"},
	})
	defer e.dismiss(runs)
	e.enter("%d links of each scheme, f = %g", e.spaceLinks, share)
	links, err := newTraffics(runs)
	if err != nil {
		return err
	}
	defer links.close()
	runs = beside(ctx, e, runs, called, func(ctx context.Context, r *running) error {
		return e.fillOn(ctx, r, links[r], level)
	})
	if ctx.Err() == nil {
		e.read(ctx, runs, links)
	}
	return nil
}

// fillable are the schemes whose space can be in use to that share.
func (e *experiment) fillable(share float64) []scheme {
	var some []scheme
	for _, s := range e.schemes {
		if s.used != nil || share == 0 {
			some = append(some, s)
		}
	}
	return some
}

// fillOn makes links, and keeps how many attempts they took as the server has it.
func (e *experiment) fillOn(ctx context.Context, r *running, t *scenario.Traffic, level int) error {
	f := e.found[r.name].space
	attempts, conflicts, err := attemptsOf(ctx, r.server, func() error { return e.manyLinks(ctx, t) })
	if err != nil {
		return err
	}
	f.attempts[level], f.conflicts[level] = attempts, conflicts
	if r.class != "hash" {
		return nil
	}
	client := loadtest.NewClient(r.server.Public, 0)
	defer client.Close()
	repeated, _, err := attemptsOf(ctx, r.server, func() error {
		for range sameURL {
			if o := client.Create(ctx, "https://loadtest.example/the-same"); o.State != loadtest.Acknowledged {
				return fmt.Errorf("the same URL is not made a link again: %s %s", o.State, o.Detail)
			}
		}
		return nil
	})
	if err == nil {
		f.repeated = &repeated
	}
	return err
}

// manyLinks makes links, some at a time, and fails when any is not made.
func (e *experiment) manyLinks(ctx context.Context, t *scenario.Traffic) error {
	var clients errgroup.Group
	for i := range spaceWidth {
		clients.Go(func() error { return oneByOne(ctx, t, (e.spaceLinks+i)/spaceWidth) })
	}
	return clients.Wait()
}

// attemptsOf is how many keys a creation took while the links were made, and how many of
// them belonged to others.
func attemptsOf(ctx context.Context, server *testbed.Program, links func() error) (attempts, conflicts float64, err error) {
	before, err := testbed.AskMetrics(ctx, server.Admin)
	if err != nil {
		return 0, 0, err
	}
	if err := links(); err != nil {
		return 0, 0, err
	}
	after, err := testbed.AskMetrics(ctx, server.Admin)
	if err != nil {
		return 0, 0, err
	}
	grown := func(name string) float64 { return counters(after, name) - counters(before, name) }
	created := grown("shortener_links_created_total")
	if created == 0 {
		return 0, 0, errors.New("the server tells of no links")
	}
	return grown("kgs_keys_taken_total") / created, grown("kgs_key_conflicts_total") / created, nil
}

// counters is the sum of the counters of a name, whatever their labels.
func counters(m testbed.Metrics, name string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetCounter().GetValue()
	}
	return sum
}

// expected is how many attempts chance takes where a share of the codes is in use.
func (e *experiment) expected(share float64) float64 {
	used := math.Round(share * spaceSize)
	return spaceSize / (spaceSize - used - float64(e.spaceLinks)/2)
}
