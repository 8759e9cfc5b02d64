package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"

	"keypool/loadtest/testbed"
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
	once := exchange{method: http.MethodGet, url: server.Public + "/" + code, status: http.StatusFound, location: linkTo(code).URL}
	if err := once.try(ctx); err != nil {
		return nil, err
	}
	check, err := redirectsCounted(ctx, server)
	if err != nil {
		return nil, err
	}
	figures, err := r.alternate(ctx,
		subject{name: "look-ups, " + f.name(), unit: rate, measure: func(ctx context.Context) (float64, error) {
			return lookups(ctx, f, r.Each)
		}},
		subject{name: "redirects, " + f.name(), unit: rate, measure: func(ctx context.Context) (float64, error) {
			args := []string{strconv.FormatInt(f.links, 10), strconv.FormatInt(f.step(), 10), seed()}
			return r.wrk("", wrk{url: server.Public, script: "random", args: args, check: check}).measure(ctx)
		}},
	)
	bars := []Bar{{
		What: fmt.Sprintf("redirects by chance, %s", f.name()), Unit: rate, Measured: figures[1],
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
		Measured: Series{memory.most / mebi}, Aim: AtMost(restMemory + cacheMemory),
		Note: fmt.Sprintf("%d MiB at rest and %d for a full cache", restMemory, cacheMemory)}), err
}

// seed is for the script's chance: the same one would ask for the same links in each round.
func seed() string {
	return strconv.FormatUint(uint64(rand.Uint32()), 10) //nolint:gosec // nothing secret about it
}
