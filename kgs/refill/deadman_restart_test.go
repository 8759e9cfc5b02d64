package refill

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keypool/kgs"
)

// brokenPool is a pool whose fields select how workers fail to fill it. Workers do not fail if the
// fields have the zero value. Servers take ten keys a second from the pool.
type brokenPool struct {
	keys, pushed, popped atomic.Int64 // numbers of keys; pushed excludes the initial keys of the pool
	fills                atomic.Int64
	prepare, fill        error // the errors of Prepare and Fill
	spin                 bool  // if true, Fill pushes no keys and returns no error
	trickle              bool  // if true, one key arrives every ten seconds, although servers take ten a second
}

func (p *brokenPool) Prepare(context.Context) error { return p.prepare }

func (p *brokenPool) Len(context.Context) (int64, error) { return p.keys.Load(), nil }

func (p *brokenPool) Fill(_ context.Context, n int64) (int64, error) {
	p.fills.Add(1)
	if p.fill != nil || p.spin {
		return 0, p.fill
	}
	p.keys.Add(n)
	p.pushed.Add(n)
	return n, nil
}

func (p *brokenPool) Release(context.Context) error { return nil }

func (p *brokenPool) Status(context.Context) (Observation, error) {
	return Observation{PoolStatus: kgs.PoolStatus{Keys: p.keys.Load(), Taken: p.popped.Load(), Pushed: p.pushed.Load(), Epoch: 1}}, nil
}

func (p *brokenPool) drain(ctx context.Context) {
	for second := 0; ctx.Err() == nil; second++ {
		if p.trickle && second%10 == 9 {
			p.keys.Add(1)
			p.pushed.Add(1)
		}
		n := min(10, p.keys.Load())
		p.keys.Add(-n)
		p.popped.Add(n)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// outcome records the actions of a switch while it watched a pool.
type outcome struct {
	states   []State
	restarts int
	gaveUp   time.Duration // time from the start of the switch until it gave up; 0 if it never gave up
}

// watch runs a switch on the pool for the given time. If worker is false, the switch has no
// Restart function.
func (p *brokenPool) watch(t *testing.T, worker bool, duration time.Duration) (o outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	d := newTestSwitch()
	start := time.Now()
	d.cfg.Look = p.Status
	d.cfg.Changed = func(j Judgement) { o.states = append(o.states, j.State) }
	d.cfg.GiveUp = func(error) {
		o.gaveUp = time.Since(start)
		cancel()
	}
	done := make(chan error, 2)
	done <- nil
	if worker {
		s := NewSupervisor(func() Runner {
			w := newTestWorker(p)
			w.cfg.Capacity, w.cfg.LowWater, w.cfg.Chunk = 1000, 900, 100
			return w
		}, slog.New(slog.DiscardHandler))
		<-done
		go func() { done <- s.Run(ctx) }()
		d.cfg.Restart = func() { o.restarts++; s.Restart() }
	}
	go p.drain(ctx)
	if err := d.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the supervisor ended with %v", err)
	}
	return o
}

func TestDeadManSwitchGivesUpAfterFutileRestarts(t *testing.T) {
	tests := map[string]*brokenPool{
		"the worker cannot connect": {prepare: errors.New("connection refused")},
		"every push fails":          {fill: errors.New("OOM command not allowed")},
		"the worker pushes no keys": {spin: true},
	}
	for name, pool := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool.keys.Store(1000)
				o := pool.watch(t, true, time.Hour)
				if len(o.states) != 3 || o.states[1] != StateRestart || o.states[2] != StatePage {
					t.Errorf("the switch was in the states %v, want ok, restart, page", o.states)
				}
				// The first restart is due after about 40 s, when the runway
				// falls below 60 s. The gaps after it are 10, 20 and 40 s.
				if o.restarts != futileRestarts || o.gaveUp < 100*time.Second || o.gaveUp > 130*time.Second {
					t.Errorf("the switch gave up after %v and %d restarts, want 3 restarts in 100 to 130 s",
						o.gaveUp, o.restarts)
				}
				if tries := pool.fills.Load(); tries > 6*int64(o.gaveUp.Seconds()) {
					t.Errorf("%d attempts in %v, so the worker does not back off", tries, o.gaveUp)
				}
			})
		})
	}
}

func TestDeadManSwitchPagesIfWorkerIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &brokenPool{}
		pool.keys.Store(1000)
		o := pool.watch(t, false, 10*time.Minute)
		if len(o.states) != 3 || o.states[2] != StatePage || o.restarts != 0 || o.gaveUp != 0 {
			t.Errorf("the switch did %+v, want the states ok, restart and page, no restart of a worker, and no give-up",
				o)
		}
	})
}

// These are the controls of TestDeadManSwitchGivesUpAfterFutileRestarts. The switch does not give up
// while keys arrive, even if too few keys arrive.
func TestDeadManSwitchDoesNotGiveUpWhileKeysArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &brokenPool{}
		o := pool.watch(t, true, 10*time.Minute)
		if len(o.states) != 1 || o.states[0] != StateOK || o.restarts != 0 {
			t.Errorf("the switch did %+v, want only the state ok and no restart, because the pool fills", o)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		pool := &brokenPool{spin: true, trickle: true}
		pool.keys.Store(1000)
		o := pool.watch(t, true, 10*time.Minute)
		if o.gaveUp != 0 || o.restarts < futileRestarts {
			t.Errorf("the switch did %+v, want repeated restarts and no give-up, because keys arrive", o)
		}
	})
}

func TestDeadManSwitchWithoutGiveUpKeepsRestartingWorker(t *testing.T) {
	t.Parallel()
	d := newTestSwitch()
	now, restarts := time.Now(), 0
	d.cfg.Restart = func() { restarts++ }
	d.observe(now, observed(kgs.PoolStatus{Keys: 1000}), true)
	for range 1200 {
		now = now.Add(time.Second)
		d.act(d.observe(now, Observation{}, true), d.Judgement())
	}
	if restarts < 6 || restarts > 8 { // restarts are due after 0, 10, 30, 70, 150, 310, 610 and 910 s
		t.Errorf("%d restarts in twenty minutes, want 6 to 8", restarts)
	}
}

// A Redis that crashes every few seconds causes one epoch after another, and a few keys arrive in
// each epoch. The switch must page, although the pool grows within each epoch.
func TestDeadManSwitchPagesIfPoolNeverFills(t *testing.T) {
	t.Parallel()
	d := newTestSwitch()
	now := time.Now()
	for i := range int64(60) {
		now = now.Add(time.Second)
		keys := 10 * (i % 5)
		d.observe(now, observed(kgs.PoolStatus{Epoch: 1 + i/5, Keys: keys, Pushed: keys}), true)
	}
	if j := d.Judgement(); j.State != StatePage {
		t.Errorf("the judgement is %+v, want the state page", j)
	}
}
