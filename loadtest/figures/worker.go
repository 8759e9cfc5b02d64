package figures

import "keypool/internal/golines"

// Part is a part of the key generation service, with the faults that it protects from.
type Part struct {
	Name     string
	Files    []string // patterns below the root of the module
	Protects string
	Rows     []string // rows of the fault table

	lines int // lines of code, rounded to tens
}

// Parts returns the parts of the key generation service with a pool in Redis.
func Parts() []Part {
	return []Part{
		{Name: "refill loop", Files: []string{"kgs/refill/worker.go", "kgs/refill/workers.go"},
			Protects: "a pool that is refilled too late, in chunks that are too large, or without a pause after an error", Rows: []string{"5"}},
		{Name: "durable ranges", Files: []string{"kgs/ledger/ledger.go", "kgs/ledger/reserve.go", "kgs/ledger/tx.go", "kgs/ledger/dialect.go", "kgs/ledger/settle.go", "kgs/ledger/snapshot.go", "kgs/ledger/watch.go"},
			Protects: "numbers that are issued twice or skipped after a crash, and two workers that take the same numbers", Rows: []string{"3", "5", "walk"}},
		{Name: "pushes that can be repeated", Files: []string{"kgs/redispool/filler.go", "kgs/redispool/give_up.go", "kgs/redispool/push.go", "kgs/redispool/scripts.go", "kgs/redispool/client.go", "kgs/redispool/url.go", "kgs/redispool/tls.go"},
			Protects: "lost replies, a worker that was frozen, and a Redis that may evict keys", Rows: []string{"4", "9", "12"}},
		{Name: "batches that can be repeated", Files: []string{"kgs/redispool/pool.go", "kgs/redispool/take.go", "kgs/redispool/held.go", "kgs/redispool/lists.go", "kgs/redispool/slots.go", "kgs/redispool/status.go", "kgs/redispool/snapshot.go", "kgs/redispool/sweep.go"},
			Protects: "lost replies of a take, and batches of servers that crashed", Rows: []string{"1b", "8"}},
		{Name: "epochs", Files: []string{"kgs/ledger/epoch.go", "kgs/redispool/prepare.go", "kgs/redispool/open.go", "kgs/redispool/damage.go", "kgs/redispool/alarm.go"},
			Protects: "a pool that came back from an older snapshot or from a replica that lagged, and a pool that is altered or shared by mistake", Rows: []string{"6", "10", "10b", "11", "11b"}},
		{Name: "rollbacks of the database", Files: []string{"kgs/ledger/rollback.go", "kgs/ledger/witness.go", "internal/diskfile/diskfile.go"},
			Protects: "a database that fails over to a standby that lagged, or that is replaced by an older copy", Rows: []string{"17", "17b", "17c"}},
		{Name: "holders and heartbeats", Files: []string{"kgs/ledger/holders.go", "kgs/ledger/janitor.go", "kgs/ledger/presence.go"},
			Protects: "processes that crash or freeze while they hold numbers, and clocks that jump", Rows: []string{"1b", "4", "22"}},
		{Name: "permutation (FF1)", Files: []string{"kgs/codespace/*.go"},
			Protects: "clients that guess codes, and a wrong key", Rows: []string{"21"}},
		{Name: "local batch and fallback", Files: []string{"kgs/source.go", "kgs/source_refill.go", "kgs/generator.go", "kgs/meter.go", "kgs/keysource/random.go"},
			Protects: "a network call for each creation, and creations that fail while Redis is down", Rows: []string{"2b", "6"}},
		{Name: "circuit breaker", Files: []string{"kgs/breaker.go", "kgs/failure_log.go"},
			Protects: "creations that wait for a Redis that hangs", Rows: []string{"7"}},
		{Name: "dead man's switch", Files: []string{"kgs/refill/deadman.go", "kgs/refill/deadman_state.go", "kgs/refill/supervisor.go"},
			Protects: "a worker that runs and pushes no keys", Rows: []string{"13", "14a", "14b", "14c"}},
		{Name: "audit", Files: []string{"kgs/audit/*.go"},
			Protects: "a fault that the other parts do not notice: each key must be in exactly one place", Rows: []string{"3", "8", "9"}},
	}
}

// counted returns the parts with their numbers of lines.
func counted(root string) ([]Part, error) {
	parts := Parts()
	for i := range parts {
		n, err := golines.Count(root, parts[i].Files...)
		if err != nil {
			return nil, err
		}
		parts[i].lines = (n + 5) / 10 * 10
	}
	return parts, nil
}
