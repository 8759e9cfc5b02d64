package schemes

import (
	"context"
	"errors"
	"time"

	"keypool/loadtest/testbed"
)

// killOthers kills Redis, the key services and one ticket database, then the other one, and
// brings all of them back.
func (e *experiment) killOthers(ctx context.Context, actors []*actor, tickets [2]*testbed.Server) error {
	e.enter("Redis, the key services and a ticket database are killed")
	var victims []victim
	victims = append(victims, e.stage.redis)
	for _, a := range actors {
		if a.victim == victimService {
			victims = append(victims, a.service)
		}
	}
	if tickets[1] != nil {
		victims = append(victims, tickets[1])
	}
	if err := kill(victims...); err != nil {
		return err
	}
	mark(actors, time.Now(), func(a *actor) *time.Time { return &a.lost }, victimRedis, victimService, victimEven)
	pause(ctx, e.half)
	if tickets[0] != nil {
		e.enter("the other ticket database is killed too")
		if err := kill(tickets[0]); err != nil {
			return err
		}
		victims = append(victims, tickets[0])
	}
	now := time.Now()
	// From here on both are away.
	mark(actors, now, func(a *actor) *time.Time { return &a.back }, victimEven)
	mark(actors, now, func(a *actor) *time.Time { return &a.lost }, victimTickets)
	pause(ctx, e.half)
	e.enter("all of them are back")
	if err := restart(ctx, victims...); err != nil {
		return err
	}
	mark(actors, time.Now(), func(a *actor) *time.Time { return &a.back }, victimRedis, victimService, victimTickets)
	return nil
}

// killPostgres kills the database of all links. It has made a checkpoint: how long it
// recovers is up to it, and not to any scheme.
func (e *experiment) killPostgres(ctx context.Context, actors []*actor, links *testbed.Server) error {
	if err := statement(ctx, links.URL, `CHECKPOINT`); err != nil {
		return err
	}
	e.enter("PostgreSQL is killed")
	if err := kill(links); err != nil {
		return err
	}
	mark(actors, time.Now(), func(a *actor) *time.Time { return &a.lost }, victimPostgres)
	pause(ctx, e.half)
	e.enter("PostgreSQL is back")
	if err := restart(ctx, links); err != nil {
		return err
	}
	mark(actors, time.Now(), func(a *actor) *time.Time { return &a.back }, victimPostgres)
	return nil
}

// victim is a process that is killed and started again.
type victim interface {
	Kill() error
	Restart(ctx context.Context) error
}

func kill(victims ...victim) error {
	var errs []error
	for _, v := range victims {
		errs = append(errs, v.Kill())
	}
	return errors.Join(errs...)
}

func restart(ctx context.Context, victims ...victim) error {
	var errs []error
	for _, v := range victims {
		errs = append(errs, v.Restart(ctx))
	}
	return errors.Join(errs...)
}

// mark enters a moment with the actors that lose any of the victims.
func mark(actors []*actor, now time.Time, moment func(*actor) *time.Time, victims ...string) {
	for _, a := range actors {
		for _, v := range victims {
			if a.victim == v {
				*moment(a) = now
			}
		}
	}
}
