package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"keypool/kgs/codespace"
	"keypool/loadtest/rounds"
	"keypool/loadtest/wrk"
	"keypool/shortener"

	"golang.org/x/sync/errgroup"
)

const (
	// groupRows is the size of a group commit with so many connections.
	groupRows = wrk.Connections
	// longLength is that of the codes that are added: none of them is there.
	longLength = codespace.MaxLength
	growthAim  = 1.3
)

// growth measures what a creation and a look-up cost the store when it holds many links,
// beside one that holds few.
func growth(ctx context.Context, r *run) ([]Bar, error) {
	many := int64(manyLinks)
	if r.Full {
		many = mostLinks
	}
	return bothEngines(func(e engine) ([]Bar, error) {
		few, err := r.filled(ctx, e, fewLinks)
		if err != nil {
			return nil, err
		}
		full, err := r.filled(ctx, e, many)
		if err != nil {
			return nil, err
		}
		return r.grown(ctx, few, full)
	})
}

// bothEngines measures with one after the other; a failure of one does not lose the other.
func bothEngines(measure func(engine) ([]Bar, error)) ([]Bar, error) {
	embedded, err := measure(sqliteEngine)
	postgres, other := measure(postgresEngine)
	return append(embedded, postgres...), errors.Join(err, other)
}

func (r *run) grown(ctx context.Context, few, many *filled) ([]Bar, error) {
	lookup := func(f *filled) rounds.Subject {
		return rounds.Subject{Name: "look-up, " + f.name(), Unit: "µs", Measure: func(ctx context.Context) (float64, error) {
			perSecond, err := lookups(ctx, f, r.Each)
			return 1e6 / perSecond, err
		}}
	}
	insert := func(f *filled) rounds.Subject {
		return rounds.Subject{Name: "creation, " + f.name(), Unit: "µs", Measure: func(ctx context.Context) (float64, error) {
			return insertCost(ctx, f, r.Each)
		}}
	}
	figures, err := r.alternate(ctx, lookup(few), lookup(many), insert(few), insert(many))
	bars := []Bar{
		{What: fmt.Sprintf("cost of a look-up, %s", many.name()), Measured: figures[1], Baseline: figures[0]},
		{What: fmt.Sprintf("cost of a creation, %s", many.name()), Measured: figures[3], Baseline: figures[2]},
	}
	for i := range bars {
		bars[i].Unit, bars[i].Versus, bars[i].Aim = "µs", "with "+millions(few.links), AtMost(growthAim)
		if !r.Full {
			bars[i].Note = fmt.Sprintf("the bar is about %s; --full measures that", millions(mostLinks))
		}
	}
	return bars, err
}

// lookups is how many links by chance the store reads in a second, for as many callers as
// wrk has connections.
func lookups(ctx context.Context, f *filled, each time.Duration) (perSecond float64, err error) {
	var n atomic.Int64
	begun := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range wrk.Connections {
		g.Go(func() error {
			for time.Since(begun) < each {
				code := f.anyCode()
				link, err := lookUp(ctx, f.store, code)
				if err != nil {
					return err
				}
				if want := linkTo(code).URL; link.URL != want {
					return fmt.Errorf("%s leads to %q, want %q", code, link.URL, want)
				}
				n.Add(1)
			}
			return nil
		})
	}
	err = g.Wait()
	return float64(n.Load()) / time.Since(begun).Seconds(), err
}

// insertCost is the time that a creation takes in a group commit, in microseconds. The
// codes come by chance, as keys do, and are longer than those that are there. They are
// removed again, outside the time, or few links would have become more with each round.
func insertCost(ctx context.Context, f *filled, each time.Duration) (micros float64, err error) {
	var codes []string
	begun := time.Now()
	for links := make([]shortener.Link, groupRows); time.Since(begun) < each; {
		for i := range links {
			//nolint:gosec // nothing secret about them
			links[i] = linkTo(f.codes.Code(longLength, rand.Int64N(codespace.Size(longLength))))
			codes = append(codes, links[i].Code)
		}
		if err := insertAll(ctx, f.store, links); err != nil {
			return 0, err
		}
	}
	micros = float64(time.Since(begun).Microseconds()) / float64(len(codes))
	return micros, f.remove(ctx, codes)
}
