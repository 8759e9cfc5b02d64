package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/report"
	"keypool/loadtest/testbed"
)

// outagePlan is how large the experiment is, and how long its parts take.
type outagePlan struct {
	servers int
	batch   int     // keys in a local batch
	rate    float64 // creations per second on all servers
	before  time.Duration
	away    time.Duration // of Redis
	after   time.Duration
}

const (
	// lookPeriod is how often the servers are asked for their breakers and local keys.
	lookPeriod = 250 * time.Millisecond
	// outageTaken is how long Redis stays away, at the least, when all local keys are gone.
	outageTaken = 3 * time.Second
	// outageStart is about what it takes to start everything, and to read the links back.
	outageStart = 10 * time.Second
)

// outage is 20 servers that lose their Redis under load, and get it back.
func outage(ctx context.Context, r *Run) (report.Scenario, error) {
	return newOutagePlan(r).run(ctx, r)
}

func newOutagePlan(r *Run) outagePlan {
	plan := outagePlan{servers: 20, batch: 100, rate: promisedRate, before: 3 * time.Second, away: 7 * time.Second, after: 6 * time.Second}
	if r.Full {
		plan.before, plan.away, plan.after = 30*time.Second, 40*time.Second, 30*time.Second
	}
	if r.Rate != 0 {
		plan.rate = r.Rate
	}
	// A server holds a current batch and a spare one, which at a low rate last long.
	local := time.Duration(float64(2*plan.servers*plan.batch) / plan.rate * float64(time.Second))
	plan.away = max(plan.away, local+outageTaken)
	return plan
}

// outageRun is the experiment under way.
type outageRun struct {
	outagePlan
	Part
	pulse  *pulse
	fleet  *fleet
	record outageRecord
}

// outageRecord is what happened, and all that the experiment is judged by.
type outageRecord struct {
	killed, back, ended time.Time // Redis was killed, and answered again; the load ended
	atKill              fleetLook // right after the kill: nothing reaches the servers any more
	before, lost, after books     // of the ledger: at first, when Redis was away, in the end
	looks               []sampled[fleetLook]
	creations           [][]creationSeen // by server, in the order of their intent
	told                float64          // random keys taken, as the servers have it
}

// creationSeen is one creation as its client saw it.
type creationSeen struct {
	at     time.Time // of the intent
	made   bool      // it was acknowledged
	number int64     // of its code
}

// random says that no number so high was ever reserved, so that the code was drawn by
// chance. A random code that happens to have a lower number is rarer than one in 100,000.
func (c creationSeen) random(b books) bool { return c.made && c.number >= b.reserved }

func (plan outagePlan) run(ctx context.Context, r *Run) (_ report.Scenario, err error) {
	o := &outageRun{outagePlan: plan}
	o.enterClaims()
	o.pulse = r.pulse(ctx, "outage", outageStart+plan.before+plan.away+plan.after)
	defer o.pulse.stop()
	o.pulse.enter(fmt.Sprintf("starting %d servers", plan.servers))
	bed, err := testbed.New(r.Programs)
	if err != nil {
		return o.Scenario, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	if o.fleet, err = newFleet(ctx, bed, plan.servers, plan.batch); err != nil {
		if o.fleet != nil {
			o.fleet.close()
		}
		return o.Scenario, err
	}
	defer o.fleet.close()
	o.pulse.watch(o.fleet.recorder, o.fleet.servers[0].Admin)
	err = o.experiment(ctx)
	whole := err == nil && ctx.Err() == nil
	if whole {
		o.judgeRecord()
	}
	err = errors.Join(err, o.account(ctx))
	if whole {
		o.draw(o.pulse.stop())
	}
	return o.Scenario, err
}

// experiment kills Redis under load and brings it back. It ends early with ctx.
func (o *outageRun) experiment(ctx context.Context) (err error) {
	o.pulse.enter("all is well")
	if o.record.before, err = insist(ctx, o.fleet.books); err != nil {
		return err
	}
	looks := sample(ctx, lookPeriod, o.fleet.look)
	end := o.fleet.start(ctx, o.rate)
	pause(ctx, o.before)
	if ctx.Err() == nil {
		err = o.strike(ctx)
	}
	err = errors.Join(err, end())
	o.record.ended = time.Now()
	o.record.looks = looks.stop()
	if err != nil || ctx.Err() != nil {
		return err
	}
	if o.record.after, err = insist(ctx, o.fleet.books); err != nil {
		return err
	}
	o.record.creations = o.fleet.creations()
	o.record.told, err = insist(ctx, o.fleet.takenAtRandom)
	return err
}

// strike kills Redis, and starts it again after a while.
func (o *outageRun) strike(ctx context.Context) (err error) {
	r := &o.record
	o.pulse.enter("Redis is killed")
	r.killed = time.Now()
	if err := o.fleet.redis.Kill(); err != nil {
		return err
	}
	if r.atKill, err = insist(ctx, o.fleet.look); err != nil {
		return err
	}
	pause(ctx, o.away-time.Since(r.killed))
	if r.lost, err = insist(ctx, o.fleet.books); err != nil {
		return err
	}
	o.pulse.enter("Redis is back")
	if err := o.fleet.redis.Restart(ctx); err != nil {
		return err
	}
	r.back = time.Now()
	pause(ctx, o.after)
	return nil
}

// creations are those of each server.
func (f *fleet) creations() [][]creationSeen {
	all := make([][]creationSeen, len(f.traffics))
	for i, t := range f.traffics {
		for _, e := range t.Entries() {
			c := creationSeen{at: e.At, made: e.State == loadtest.Acknowledged}
			if length, n, err := f.space.Number(e.Code); err == nil && length == fleetLength {
				c.number = n
			}
			all[i] = append(all[i], c)
		}
	}
	return all
}

// account reads every link back and judges the accounts, also after an early end.
func (o *outageRun) account(ctx context.Context) error {
	o.pulse.enter("reading every link back")
	o.pulse.watch(nil, "") // the charts are of the experiment
	after, cancel := afterwards(ctx)
	defer cancel()
	verdict, err := o.fleet.judge(after)
	o.judgeAccounts(verdict)
	return err
}
