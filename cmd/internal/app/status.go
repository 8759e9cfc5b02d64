package app

import (
	"keypool/kgs"
	"keypool/web/admin"

	"github.com/sony/gobreaker/v2"
)

// status is the chain as /status tells it. It asks nobody: what the watches last saw
// is at most seconds old, and what they could not see is unknown.
func (ch *chain) status() admin.Status {
	s := admin.Status{State: string(kgs.StateOK), KeySource: ch.settings.KeySource, Since: ch.started}
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
	if ch.fromLedger { // what is used up by codes from elsewhere, this ledger does not know
		ch.counters.describe(&s)
	}
	if ch.breaker != nil {
		name := ch.breaker.State().String()
		s.Breaker = &name
	}
	return s
}

// servingFrom tells where the next key would come from. A scheme without a local batch
// counts as one that never ends, until it gives nothing.
func (ch *chain) servingFrom() string {
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

// degraded reports that links are made by other means than intended.
func (ch *chain) degraded() bool {
	if ch.breaker != nil {
		if ch.breaker.State() != gobreaker.StateClosed {
			return true
		}
	}
	return ch.servingFrom() != "batch"
}

// describe enters what the dead man's switch knows.
func (w *poolWatch) describe(s *admin.Status) {
	j := w.Judgement()
	s.State, s.Since = string(j.State), j.Since
	if j.Known {
		s.PoolKeys = &j.Pool.Keys
		if j.Pool.Epoch > 0 {
			s.Epoch = &j.Pool.Epoch
		}
		if j.Pool.Policy != "" {
			evicts := j.Pool.Evicts()
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

// describe enters how far the space is used up, and what that would cost a random code.
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
