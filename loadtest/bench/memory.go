package bench

import (
	"context"
	"fmt"
	"time"

	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
)

const (
	// atRest is how long a server is left alone before its memory is read.
	atRest       = 5 * time.Second
	fillPatience = time.Minute
	fillLook     = 50 * time.Millisecond

	restMemory = 40 // MiB that a server may have at rest
	// cacheMemory is what a full cache of links takes, in MiB, by package shortener.
	cacheMemory = 25
)

// memory measures what the embedded server has resident when its pool is full, a link was
// made and followed, and then nothing happened.
func memory(ctx context.Context, r *run) ([]Bar, error) {
	figures, err := r.alternate(ctx, rounds.Subject{Name: "embedded server", Unit: "MiB", Measure: func(ctx context.Context) (mib float64, err error) {
		_, err = r.onBed(func(bed *testbed.Bed) (_ []Bar, err error) {
			mib, err = memoryAtRest(ctx, bed)
			return nil, err
		})
		return mib, err
	}})
	return []Bar{{What: "memory of the embedded server at rest", Unit: "MiB", Measured: figures[0], Aim: AtMost(restMemory)}}, err
}

func memoryAtRest(ctx context.Context, bed *testbed.Bed) (mib float64, err error) {
	server, err := bed.Server(ctx)
	if err != nil {
		return 0, err
	}
	link := creation(server.Public)
	link.Body = `{"url":"` + target + `","alias":"alias"}`
	if err := link.Try(ctx); err != nil {
		return 0, err
	}
	if err := visit(server.Public, "alias").Try(ctx); err != nil {
		return 0, err
	}
	err = testbed.Until(ctx, fillLook, fillPatience, func(ctx context.Context) (bool, error) {
		status, err := testbed.AskStatus(ctx, server.Admin)
		if err == nil && status.State != "ok" {
			err = fmt.Errorf("the state of the pool is %s", status.State)
		}
		return err == nil, err
	})
	if err != nil {
		return 0, err
	}
	if err := testbed.Pause(ctx, atRest); err != nil {
		return 0, err
	}
	resident, err := residentOf(server.PID())
	return resident.now / mebi, err
}
