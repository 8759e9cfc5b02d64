package simulate

import (
	"time"

	"keypool/loadtest/plan"
)

// The constants of the models. The function constants states their sources, except that of stopTime.
const (
	oneWay       = 15 * time.Microsecond   // time of a request to Redis, or of a reply, on the network
	callBusy     = 20 * time.Microsecond   // time of Redis for each call
	takeBusy     = 100 * time.Nanosecond   // time of Redis for each key that is taken
	pushBusy     = 130 * time.Nanosecond   // time of Redis for each key that is pushed
	keyTime      = 340 * time.Nanosecond   // time of a worker for each key, including the push
	ledgerTime   = 1500 * time.Microsecond // time of one call to the ledger
	restartPause = 2 * time.Second         // time from the end of the program kgs to its next start
	stopTime     = 10 * time.Second        // time after which a server that stops gives up the return of its keys
)

// step returns the longest step in which a server makes at most one creation on average. If there is no such step, it
// returns the shortest step.
func (in Input) step() time.Duration {
	// All creations of a step happen at its midpoint. The worker checks the pool at multiples of 200 ms. No midpoint of
	// these steps is such a multiple, so a check and a creation never happen at the same time.
	steps := []time.Duration{500 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond}
	for _, step := range steps {
		if float64(in.Keys)/in.Duration*step.Seconds() <= float64(in.Servers) {
			return step
		}
	}
	return steps[len(steps)-1]
}

// constants returns the constants of the models in a simulation with a given step.
func constants(step time.Duration) []plan.Constant {
	return []plan.Constant{
		{Name: "network_one_way_seconds", Value: oneWay.Seconds(), Source: modelTimes},
		{Name: "redis_call_seconds", Value: callBusy.Seconds(), Source: modelTimes},
		{Name: "redis_take_seconds_per_key", Value: takeBusy.Seconds(), Source: modelTimes},
		{Name: "redis_push_seconds_per_key", Value: pushBusy.Seconds(), Source: modelTimes},
		{Name: "ledger_call_seconds", Value: ledgerTime.Seconds(), Source: "docs/benchmarks.md, Load test, 2026-11-22, p99 of a single-row INSERT"},
		{Name: "worker_seconds_per_key", Value: keyTime.Seconds(), Source: "docs/benchmarks.md, Bars, 2026-11-23, refill at 2.94M/s"},
		{Name: "worker_restart_seconds", Value: restartPause.Seconds(), Source: "deploy/systemd/keypool-kgs.service, RestartSec"},
		{Name: "workers", Value: workers, Source: "deploy/helm/keypool/values.yaml, kgs.replicas"},
		{Name: "batch_keys_max", Value: batchMax, Source: "docs/configuration.md, KGS_BATCH_MAX"},
		{Name: "creations_step_seconds", Value: step.Seconds(), Source: "loadtest/simulate/constants.go"},
	}
}

// modelTimes is where the times of calls come from.
const modelTimes = "docs/benchmarks.md, Times of the simulator, 2026-11-24"
