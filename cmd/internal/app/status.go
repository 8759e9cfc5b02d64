package app

import (
	"keypool/kgs/refill"
	"keypool/web/admin"

	"github.com/sony/gobreaker/v2"
)

// Status is the state of the chain for /status. It makes no calls: it reports what the watches read
// in the last seconds, and leaves unknown what they could not read.
func (ch *Chain) Status() admin.Status {
	s := admin.Status{State: string(refill.StateOK), KeySource: ch.settings.KeySource, Since: ch.started}
	if ch.watch != nil {
		ch.watch.describe(&s)
		s.CapacityKeys = &ch.PoolCapacity
	}
	from, since := ch.serving.look()
	s.ServingFrom, s.ServingSince = &from, &since
	if ch.local != nil {
		local, rate := ch.local.Local(), ch.local.Rate()
		s.LocalKeys, s.TakenPerSecond = &local, &rate
	}
	if ch.fromLedger { // the ledger does not know how much of the space codes from elsewhere use
		ch.counters.describe(&s)
	}
	if ch.breaker != nil {
		name := ch.breaker.State().String()
		s.Breaker = &name
	}
	return s
}

// servingFrom is where the next key would come from: batch, fallback or none. A key source without
// a local batch counts as a batch as long as it yields keys.
func (ch *Chain) servingFrom() string {
	switch {
	case ch.local != nil && (ch.local.Local() > 0 || ch.local.Failing() == nil):
		return "batch"
	case ch.local == nil && !ch.keys.dry.Load():
		return "batch"
	case ch.settings.Fallback != "none":
		return "fallback"
	}
	return "none"
}

// Degraded reports that the key source is not working as configured.
func (ch *Chain) Degraded() bool {
	if ch.breaker != nil {
		if ch.breaker.State() != gobreaker.StateClosed {
			return true
		}
	}
	return ch.servingFrom() != "batch"
}

// describe adds what the dead man's switch knows.
func (w *poolWatch) describe(s *admin.Status) {
	j := w.Judgement()
	s.State, s.Since = string(j.State), j.Since
	if j.Known {
		s.PoolKeys = &j.Pool.Keys
		if j.Pool.Epoch > 0 {
			s.Epoch = &j.Pool.Epoch
		}
		if j.Pool.Policy != "" {
			evicts := j.Pool.Unsafe != ""
			s.MayEvict = &evicts
		}
	}
	if runway, known := j.Runway(); known {
		s.RunwaySeconds = &runway
	}
	if w.worker != nil {
		rate := w.worker.Rate()
		s.RefilledPerSecond = &rate
	}
}

// describe adds how much of the space is used, and how many attempts a random code needs: 1/(1-f)
// for the used ratio f.
func (w *ledgerWatch) describe(s *admin.Status) {
	look := w.fresh()
	if look == nil {
		return
	}
	space := look.Current(w.core.CodeLength)
	used := space.UsedRatio()
	s.SpaceLength, s.SpaceUsedRatio = &space.Length, &used
	if used < 1 {
		attempts := 1 / (1 - used)
		s.FallbackAttemptsExpected = &attempts
	}
	if look.rate > 0 {
		seconds := float64(space.Size-space.Next) / look.rate
		s.SpaceRunwaySeconds = &seconds
	}
}
