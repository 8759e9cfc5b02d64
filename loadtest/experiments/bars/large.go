package bars

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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

// large measures what a full database of one engine costs: a look-up, a creation, redirects of
// random links, and the start of a server.
func large(e engine) *experiment.Experiment {
	bars := []bar{
		{name: "cost of a look-up, " + e.name, unit: "µs", versus: "with 1 million links", most: 1.5,
			text: "A look-up among 10 million links (with --full 100 million) costs at most 1.5 times as much as among 1 million."},
		{name: "cost of a creation, " + e.name, unit: "µs", versus: "with 1 million links", most: 1.15,
			text: "A creation beside 10 million links (with --full 100 million) costs at most 1.15 times as much as beside 1 million."},
		{name: "random redirects, " + e.name, unit: measure.PerSecond, versus: "bare echo", least: 0.55,
			note: "the cache holds 65,536 links, 0.66 %, and asks the store again after a second, so nearly every redirect is a look-up",
			text: "The server follows random links among 10 million at least 0.55 times as often per second as a bare echo handler redirects."},
		{name: "look-ups of the store, " + e.name, unit: measure.PerSecond, versus: "bare echo"},
		{name: "memory under random redirects, " + e.name, unit: "MiB", most: 90, text: "Under random redirects the server has at most 90 MiB resident."},
	}
	if e.embedded {
		bars = append(bars, bar{name: "start, 10 million links", unit: "ms", most: 100, note: "a client tries every 10 ms, so the time may be that much shorter",
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
				firstLinks(t, r, "start, 10 million links", "DATABASE_URL="+many.url)
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
	redirects := measure.Wrk{URL: server.Public, Script: "random", Duration: each, Check: redirectsCounted(t, server)}
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
// connections. Each link is compared with what it must be.
func lookUps(ctx context.Context, f *filled, d time.Duration) (perSecond float64, err error) {
	var n atomic.Int64
	begun := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range measure.Connections {
		g.Go(func() error {
			for time.Since(begun) < d {
				code := f.anyCode()
				limited, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
				link, err := f.store.Lookup(limited, code)
				cancel()
				if err == nil && link.URL != urlOf(code) {
					err = fmt.Errorf("%s leads to %q, want %q", code, link.URL, urlOf(code))
				}
				if err != nil {
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

// insertCost is the time that a creation takes in a group commit of as many links as wrk has
// connections, in microseconds, measured for d. The codes are random, as keys are, and longer
// than those of the database. They are removed again outside the time, because few links would
// become more with each round.
func insertCost(ctx context.Context, f *filled, d time.Duration) (micros float64, err error) {
	var codes []string
	begun := time.Now()
	for links := make([]shortener.Link, measure.Connections); time.Since(begun) < d; {
		for i := range links {
			code := plain.Code(codespace.MaxLength, rand.Int64N(codespace.Size(codespace.MaxLength))) //nolint:gosec // not a secret
			links[i] = shortener.Link{Code: code, URL: urlOf(code), Source: shortener.SourceAlias, CreatedAt: time.Now().UTC()}
			codes = append(codes, code)
		}
		limited, cancel := context.WithTimeout(ctx, loadtest.DefaultTimeout)
		outcomes, err := f.store.Insert(limited, links)
		cancel()
		if err != nil {
			return 0, err
		}
		if i := slices.IndexFunc(outcomes, func(o shortener.Outcome) bool { return o != shortener.Inserted }); i >= 0 {
			return 0, fmt.Errorf("the store has a link %s already", links[i].Code)
		}
	}
	micros = float64(time.Since(begun).Microseconds()) / float64(len(codes))
	return micros, f.remove(ctx, codes)
}
