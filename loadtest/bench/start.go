package bench

import (
	"context"
	"time"

	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
)

// startAim is in milliseconds.
const startAim = 300

// start measures how long it takes from the start of the embedded server's process to the
// first link, with no database and with one that is full.
func start(ctx context.Context, r *run) ([]Bar, error) {
	full, err := r.filled(ctx, sqliteEngine, manyLinks)
	if err != nil {
		return nil, err
	}
	figures, err := r.alternate(ctx,
		rounds.Subject{Name: "start, no database", Unit: "ms", Measure: func(ctx context.Context) (float64, error) { return r.firstLink(ctx) }},
		rounds.Subject{Name: "start, " + full.name(), Unit: "ms", Measure: func(ctx context.Context) (float64, error) {
			return r.firstLink(ctx, "DATABASE_URL="+full.url)
		}},
	)
	const note = "tried every 10 ms, so it may be so much less"
	return []Bar{
		{What: "from exec to the first 201, embedded, no database", Unit: "ms", Measured: figures[0], Aim: AtMost(startAim), Note: note},
		{What: "from exec to the first 201, embedded, " + full.name(), Unit: "ms", Measured: figures[1], Aim: AtMost(startAim)},
	}, err
}

// firstLink gives the milliseconds.
func (r *run) firstLink(ctx context.Context, settings ...string) (ms float64, err error) {
	_, err = r.onBed(func(bed *testbed.Bed) ([]Bar, error) {
		begun := time.Now()
		_, err := bed.ServerWhen(ctx, func(ctx context.Context, p *testbed.Program) error { return creation(p.Public).Try(ctx) }, settings...)
		ms = float64(time.Since(begun).Microseconds()) / 1000
		return nil, err
	})
	return ms, err
}
