package bars

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"keypool/kgs/codespace"
	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/shortener"

	"golang.org/x/sync/errgroup"
)

// Sizes of databases, in links.
const (
	fewLinks  = 1_000_000
	manyLinks = 10_000_000
	mostLinks = 100_000_000
)

// groupRows is the size of a group commit with as many connections.
const groupRows = measure.Connections

// large measures what a full database of one engine costs: a look-up, a creation, redirects of
// random links, and the start of a server.
func large(e engine) *experiment.Experiment {
	bars := []bar{
		{name: "cost of a look-up, " + e.name, unit: "µs", versus: "with 1 million links", aim: atMost(1.5),
			text: "A look-up among 10 million links (with --full 100 million) costs at most 1.5 times as much as among 1 million."},
		{name: "cost of a creation, " + e.name, unit: "µs", versus: "with 1 million links", aim: atMost(1.15),
			text: "A creation beside 10 million links (with --full 100 million) costs at most 1.15 times as much as beside 1 million."},
		{name: "random redirects, " + e.name, unit: measure.PerSecond, versus: "bare echo", aim: atLeast(0.55),
			note: "the cache holds 65,536 links, 0.66 %, and asks the store again after a second, so nearly every redirect is a look-up",
			text: "The server follows random links among 10 million at least 0.55 times as often per second as a bare echo handler redirects."},
		{name: "look-ups of the store, " + e.name, unit: measure.PerSecond, versus: "bare echo"},
		{name: "memory under random redirects, " + e.name, unit: "MiB", aim: atMost(90), text: "Under random redirects the server has at most 90 MiB resident."},
	}
	if e.embedded {
		bars = append(bars, bar{name: "start, 10 million links", unit: "ms", aim: atMost(100), note: "a client tries every 10 ms, so the time may be that much shorter",
			text: "From exec to the first 201 the embedded server takes at most 100 ms over a database with 10 million links."})
	}
	return define("large-"+e.short, "Large databases, "+e.name,
		"Databases with 1 and 10 million links (with --full also 100 million): what a look-up and a creation cost the store, how often random links are followed "+
			"when the cache holds almost none of them, and how long a start takes.",
		bars, func(t *experiment.T, r *record) {
			few, many := fill(t, e, fewLinks), fill(t, e, manyLinks)
			if t.Full {
				growth(t, r, few, fill(t, e, mostLinks))
			} else {
				growth(t, r, few, many)
			}
			randomRedirects(t, r, many)
			if e.embedded {
				r.put("start, 10 million links", firstLinks(t, "DATABASE_URL="+many.url), nil)
			}
		})
}

// growth measures what a look-up and a creation cost the store with few and with many links.
func growth(t *experiment.T, r *record, few, many *filled) {
	lookUp := func(f *filled) measure.Subject {
		return measure.Subject{Name: "look-up, " + f.String(), Unit: "µs", Measure: func(ctx context.Context) (float64, error) {
			perSecond, err := lookUps(ctx, f, each)
			return 1e6 / perSecond, err
		}}
	}
	insert := func(f *filled) measure.Subject {
		return measure.Subject{Name: "creation, " + f.String(), Unit: "µs", Measure: func(ctx context.Context) (float64, error) { return insertCost(ctx, f, each) }}
	}
	figures := alternate(t, lookUp(few), lookUp(many), insert(few), insert(many))
	r.put("cost of a look-up, "+many.name, figures[1], figures[0])
	r.put("cost of a creation, "+many.name, figures[3], figures[2])
}

// randomRedirects measures redirects of random links, so many that the cache is of no use.
func randomRedirects(t *experiment.T, r *record, f *filled) {
	server := lab.Server(t, "DATABASE_URL="+f.url)
	server.Start()
	defer server.Kill()
	code := f.anyCode()
	t.Must(measure.Visit(server.Public, code, urlOf(code)).Try(t.Context()))
	redirects := measure.Wrk{URL: server.Public, Script: "random", Duration: each, Check: redirectsCounted(server)}
	echo := measure.Wrk{URL: measure.BareServer(t) + "/alias", Script: "get", Duration: each}
	figures := alternate(t, echo.Subject("bare echo"),
		measure.Subject{Name: "redirects, " + f.String(), Unit: measure.PerSecond, Measure: func(ctx context.Context) (float64, error) {
			// The script draws links by this seed: the same one would follow the same links in each round.
			seed := strconv.FormatUint(uint64(rand.Uint32()), 10) //nolint:gosec // not a secret
			redirects.Args = []string{strconv.FormatInt(f.links, 10), strconv.FormatInt(f.step(), 10), seed}
			tally, err := redirects.Run(ctx)
			return tally.PerSecond(), err
		}},
		measure.Subject{Name: "look-ups, " + f.String(), Unit: measure.PerSecond, Measure: func(ctx context.Context) (float64, error) { return lookUps(ctx, f, each) }},
	)
	r.put("random redirects, "+f.name, figures[1], figures[0])
	r.put("look-ups of the store, "+f.name, figures[2], figures[0])
	if len(figures[1]) > 0 {
		r.put("memory under random redirects, "+f.name, measure.Series{float64(server.Memory().Peak) / mebi}, nil)
	}
}

// lookUps is how many random links the store reads per second, for d, with as many callers as wrk has
// connections.
func lookUps(ctx context.Context, f *filled, d time.Duration) (perSecond float64, err error) {
	var n atomic.Int64
	begun := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range measure.Connections {
		g.Go(func() error {
			for time.Since(begun) < d {
				if err := lookUp(ctx, f); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	err = g.Wait()
	return float64(n.Load()) / time.Since(begun).Seconds(), err
}

// lookUp reads a random link and compares it with what it must be.
func lookUp(ctx context.Context, f *filled) error {
	ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
	defer cancel()
	code := f.anyCode()
	link, err := f.store.Lookup(ctx, code)
	if err == nil && link.URL != urlOf(code) {
		err = fmt.Errorf("%s leads to %q, want %q", code, link.URL, urlOf(code))
	}
	return err
}

// insertCost is the time that a creation takes in a group commit, in microseconds, measured
// for d. The codes
// are random, as keys are, and longer than those of the database. They are removed again
// outside the time, because few links would become more with each round.
func insertCost(ctx context.Context, f *filled, d time.Duration) (micros float64, err error) {
	var codes []string
	begun := time.Now()
	for links := make([]shortener.Link, groupRows); time.Since(begun) < d; {
		for i := range links {
			n := rand.Int64N(codespace.Size(codespace.MaxLength)) //nolint:gosec // not a secret
			links[i] = linkOf(plain.Code(codespace.MaxLength, n))
			codes = append(codes, links[i].Code)
		}
		if err := insertAll(ctx, f.store, links); err != nil {
			return 0, err
		}
	}
	micros = float64(time.Since(begun).Microseconds()) / float64(len(codes))
	return micros, f.remove(ctx, codes)
}

// insertAll inserts links that must all be new.
func insertAll(ctx context.Context, store shortener.Store, links []shortener.Link) error {
	ctx, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
	defer cancel()
	outcomes, err := store.Insert(ctx, links)
	for i, outcome := range outcomes {
		if err == nil && outcome != shortener.Inserted {
			err = fmt.Errorf("the store has a link %s already", links[i].Code)
		}
	}
	return err
}
