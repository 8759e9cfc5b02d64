package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"

	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
	"keypool/loadtest/wrk"
)

// cacheNote is about the cache of a server, which holds 65,536 links.
const cacheNote = "the cache holds 65,536 links, 0.66 %, and asks again after a second, so nearly every redirect is a look-up"

// random measures redirects of links by chance out of so many that the cache is of no use,
// beside what the store can look up when nobody else wants the processor.
func random(ctx context.Context, r *run) ([]Bar, error) {
	return bothEngines(func(e engine) ([]Bar, error) {
		f, err := r.filled(ctx, e, manyLinks)
		if err != nil {
			return nil, err
		}
		return r.onBed(func(bed *testbed.Bed) ([]Bar, error) { return r.randomRedirects(ctx, bed, f) })
	})
}

func (r *run) randomRedirects(ctx context.Context, bed *testbed.Bed, f *filled) ([]Bar, error) {
	server, err := bed.Server(ctx, "DATABASE_URL="+f.url)
	if err != nil {
		return nil, err
	}
	code := f.anyCode()
	once := wrk.Exchange{Method: http.MethodGet, URL: server.Public + "/" + code, Status: http.StatusFound, Location: linkTo(code).URL}
	if err := once.Try(ctx); err != nil {
		return nil, err
	}
	check, err := redirectsCounted(ctx, server)
	if err != nil {
		return nil, err
	}
	figures, err := r.alternate(ctx,
		rounds.Subject{Name: "look-ups, " + f.name(), Unit: rounds.PerSecond, Measure: func(ctx context.Context) (float64, error) {
			return lookups(ctx, f, r.Each)
		}},
		rounds.Subject{Name: "redirects, " + f.name(), Unit: rounds.PerSecond, Measure: func(ctx context.Context) (float64, error) {
			args := []string{strconv.FormatInt(f.links, 10), strconv.FormatInt(f.step(), 10), seed()}
			return r.wrk("", load{Load: wrk.Load{URL: server.Public, Script: "random", Args: args}, check: check}).Measure(ctx)
		}},
	)
	bars := []Bar{{
		What: fmt.Sprintf("redirects by chance, %s", f.name()), Unit: rounds.PerSecond, Measured: figures[1],
		Versus: "the store's look-ups", Baseline: figures[0], Aim: AtLeast(0.7), Note: cacheNote,
	}}
	if len(figures[1]) == 0 {
		return bars, err
	}
	memory, asked := residentOf(server.PID())
	if asked != nil {
		return bars, errors.Join(err, asked)
	}
	return append(bars, Bar{What: fmt.Sprintf("memory of the server under this load, at the most, %s", f.engine), Unit: "MiB",
		Measured: rounds.Series{memory.most / mebi}, Aim: AtMost(restMemory + cacheMemory),
		Note: fmt.Sprintf("%d MiB at rest and %d for a full cache", restMemory, cacheMemory)}), err
}

// seed is for the script's chance: the same one would ask for the same links in each round.
func seed() string {
	return strconv.FormatUint(uint64(rand.Uint32()), 10) //nolint:gosec // nothing secret about it
}
