package scenario

import (
	"math/rand/v2"
	"testing"
	"time"
)

// smallOutage is one of a few seconds.
func smallOutage() outagePlan {
	return outagePlan{
		servers: 4, batch: 50, rate: 200,
		before: 500 * time.Millisecond, away: 3500 * time.Millisecond, after: 5 * time.Second,
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	got := Scenario{Name: "outage", Run: smallOutage().run}.Execute(t.Context(), quiet())
	mustHold(t, got, claimLocal)
	if len(got.Charts) != 4 || len(got.Tables) != 1 {
		t.Errorf("%d charts and %d tables", len(got.Charts), len(got.Tables))
	}
}

// Redis stays away until all local keys are gone, however slowly they go.
func TestOutageOutlastsLocalKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		run  Run
		want time.Duration
	}{
		{Run{}, 7 * time.Second},
		{Run{Rate: 4000}, 7 * time.Second},
		{Run{Rate: 400}, 13 * time.Second}, // 4000 keys and 3 s
		{Run{Full: true}, 40 * time.Second},
		{Run{Full: true, Rate: 100}, 43 * time.Second},
	} {
		if got := newOutagePlan(&tt.run).away; got != tt.want {
			t.Errorf("at %v/s it is away for %v, want %v", tt.run.Rate, got, tt.want)
		}
	}
}

// outageAsItOughtToBe is a record of an honest fleet, by the book: each server takes its
// local keys, then random ones, then those of the new epoch.
func outageAsItOughtToBe() *outageRun {
	const firstEpoch, secondEpoch = 1000, 2000 // numbers reserved by the end of each
	o := &outageRun{outagePlan: outagePlan{servers: 4, batch: 100, rate: 200}}
	o.enterClaims()
	killed := time.Unix(1_000_000_000, 0)
	r := &o.record
	r.killed, r.back, r.ended = killed, killed.Add(8*time.Second), killed.Add(15*time.Second)
	r.before, r.lost, r.after = books{reserved: 500, epoch: 1}, books{reserved: firstEpoch, epoch: 1}, books{reserved: secondEpoch, epoch: 2}
	recovered := r.back.Add(2 * time.Second)
	for i := range o.servers {
		held := 110 + 20*i
		r.atKill.Each = append(r.atKill.Each, localKeys{At: killed, Keys: int64(held)})
		var creations []creationSeen
		for n := range 15 * 50 {
			c := creationSeen{at: killed.Add(time.Duration(n+1) * 20 * time.Millisecond), made: true}
			switch {
			case n < held:
				c.number = int64(rand.IntN(firstEpoch))
			case c.at.Before(recovered):
				c.number = secondEpoch + rand.Int64N(1e10)
				r.told++
			default:
				c.number = firstEpoch + int64(rand.IntN(secondEpoch-firstEpoch))
			}
			creations = append(creations, c)
		}
		r.creations = append(r.creations, creations)
	}
	for _, l := range []fleetLook{{Closed: 4, Batch: 4}, {Open: 4}, {Closed: 4, Batch: 4}} {
		r.looks = append(r.looks, sampled[fleetLook]{At: killed, Value: l})
	}
	return o
}

// Each thing that may go wrong fails the claim that it is about.
func TestOutageClaimsCanFail(t *testing.T) {
	t.Parallel()
	// each changes the creations of all servers within some seconds after the kill.
	each := func(r *outageRecord, from, to float64, change func(*creationSeen)) {
		for _, creations := range r.creations {
			for i := range creations {
				if s := creations[i].at.Sub(r.killed).Seconds(); s >= from && s < to {
					change(&creations[i])
				}
			}
		}
	}
	tests := []struct {
		name  string
		spoil func(*outageRecord)
		want  []string
	}{
		{"as it ought to be", func(*outageRecord) {}, nil},
		{"keys are gone too soon", func(r *outageRecord) {
			for i := range r.atKill.Each {
				r.atKill.Each[i].Keys += 20
			}
		}, []string{claimLocal}},
		{"less than a batch each", func(r *outageRecord) {
			for i := range r.atKill.Each {
				r.atKill.Each[i].Keys = 50
			}
			each(r, 1, 8, func(c *creationSeen) {
				if c.number < r.after.reserved {
					c.number = 1e9
					r.told++
				}
			})
		}, []string{claimFloor}},
		{"no fallback", func(r *outageRecord) {
			each(r, 5, 7, func(c *creationSeen) { c.made = false; r.told-- })
		}, []string{claimTakeover}},
		{"a breaker that stays closed", func(r *outageRecord) {
			r.looks[1].Value = fleetLook{Open: 3, Closed: 1}
		}, []string{claimBreakers}},
		{"a breaker that stays open", func(r *outageRecord) {
			r.looks[2].Value = fleetLook{Open: 1, Closed: 3}
		}, []string{claimBreakers}},
		{"no worker comes back", func(r *outageRecord) {
			r.after.epoch = 1
			each(r, 8, 99, func(c *creationSeen) {
				if c.number < r.after.reserved {
					c.number = 1e9
					r.told++
				}
			})
		}, []string{claimRecovery, claimEpoch, claimFresh}},
		{"an epoch too many", func(r *outageRecord) { r.after.epoch++ }, []string{claimEpoch}},
		{"the lost pool is used", func(r *outageRecord) {
			r.creations[1][len(r.creations[1])-1].number = 7
		}, []string{claimFresh}},
		{"sources are not told", func(r *outageRecord) { r.told = 0 }, []string{claimSources}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := outageAsItOughtToBe()
			tt.spoil(&o.record)
			o.judgeRecord()
			mustFail(t, o.Scenario, tt.want...)
		})
	}
}
