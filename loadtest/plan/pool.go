package plan

// Pool describes the pool of keys in Redis. It also describes when the dead man's switch of the pool gives its
// signals if no key arrives. The switch signals restart when the number of keys falls below RestartBelow, and page
// when it falls below PageBelow. RestartRunway and PageRunway are the times from these signals to the empty pool.
type Pool struct {
	Capacity       int64   `json:"capacity_keys"`
	Runway         float64 `json:"runway_seconds"`
	RedisBytes     float64 `json:"redis_bytes"`
	RestartBelow   float64 `json:"restart_below_keys"`
	RestartRunway  float64 `json:"restart_runway_seconds"`
	PageBelow      float64 `json:"page_below_keys"`
	PageRunway     float64 `json:"page_runway_seconds"`
	NightCapacity  int64   `json:"night_capacity_keys"` // smallest capacity with which the switch signals `page` at least Input.Night seconds before the pool is empty
	NightRedis     float64 `json:"night_redis_bytes"`
	RefillDuration float64 `json:"refill_seconds"` // time until an empty pool is full
}

func (in Input) pool() Pool {
	keys := float64(in.Capacity)
	restart, page := in.signalBelow(restartRatio, restartRunway), in.signalBelow(pageRatio, pageRunway)
	night := in.nightCapacity()
	return Pool{
		Capacity: in.Capacity, Runway: keys / in.Creations, RedisBytes: keys * redisBytesPerKey,
		RestartBelow: restart, RestartRunway: restart / in.Creations,
		PageBelow: page, PageRunway: page / in.Creations,
		NightCapacity: night, NightRedis: float64(night) * redisBytesPerKey,
		RefillDuration: keys / refillRate,
	}
}

// signalBelow returns the number of keys below which the dead man's switch gives a signal if no key arrives. The signal
// comes as soon as one of two rules applies. The rule of the level applies when the pool has fewer keys than a share of its
// capacity. The rule of the runway applies when two conditions are true: the runway is below a limit, and the pool has been
// below its low-water mark for at least 10 s (stillAfter).
func (in Input) signalBelow(level, limit float64) float64 {
	keys := float64(in.Capacity)
	return max(level*keys, min(limit*in.Creations, lowWaterRatio*keys-stillAfter*in.Creations))
}

// nightCapacity returns the smallest valid capacity with which the switch signals `page` at least Input.Night seconds before
// the pool is empty.
func (in Input) nightCapacity() int64 {
	least := in.Creations * in.Night / pageRatio
	if in.Night <= pageRunway {
		least = min(least, in.Creations*(in.Night+stillAfter)/lowWaterRatio)
	}
	return max(capacityMin, ceil(least))
}

// Local describes the keys in the memory of a server. A server has a current batch and a spare batch.
type Local struct {
	Batch int64 `json:"batch_keys"`
	// Keys is both batches. A crash of the server loses at most these keys and the keys of the creations in progress.
	Keys    int64   `json:"server_keys_at_most"`
	AllKeys int64   `json:"all_servers_keys_at_most"` // the same for all servers together
	Bridge  float64 `json:"bridges_seconds_at_least"` // time that the local keys last if Redis fails at the moment when a server has used up one of its two batches
}

func (in Input) local() Local {
	rate := in.Creations / float64(in.Servers)
	batch := int64(min(max(rate*batchSeconds, batchMin), batchMax))
	return Local{Batch: batch, Keys: localBatches * batch, AllKeys: localBatches * batch * in.Servers, Bridge: float64(batch) / rate}
}

// Outage is the effect of an outage of Redis, or of the worker, that lasts as long as the input says.
type Outage struct {
	Seconds       float64 `json:"seconds"`
	Creations     float64 `json:"creations"`
	FallbackRatio float64 `json:"fallback_ratio_at_most"` // during an outage of Redis, the fallback makes the codes of at most this share of the creations
	Batch         int64   `json:"bridging_batch_keys"`    // smallest batch with which the local keys last for the outage of Redis
	Capacity      int64   `json:"bridging_capacity_keys"` // smallest capacity with which an outage of the worker causes no signal `page`
}

func (in Input) outage(local Local) Outage {
	o := Outage{
		Seconds: in.Outage, Creations: in.Creations * in.Outage,
		Batch:    max(1, ceil(in.Creations/float64(in.Servers)*in.Outage)), // KGS_BATCH_MIN must not be 0
		Capacity: in.outageCapacity(),
	}
	if in.Outage > local.Bridge {
		o.FallbackRatio = 1 - local.Bridge/in.Outage
	}
	return o
}

// outageCapacity returns the smallest valid capacity with which neither rule of signalBelow causes the signal `page`
// during an outage of the worker. The worker starts a refill only when the pool has fewer keys than its low-water mark,
// so the pool may have no more keys than this mark when the outage begins. At the end of the outage, the pool must have
// at least pageRatio times its capacity. The last look of the switch before the outage is at most lookInterval before
// its beginning. The rule of the runway can apply 10 s (stillAfter) after this look. If the outage lasts long enough
// for the rule of the runway, the keys that remain at the end must also last for the time pageRunway.
func (in Input) outageCapacity() int64 {
	least := in.Creations * in.Outage / (lowWaterRatio - pageRatio)
	if in.Outage >= stillAfter-lookInterval {
		least = max(least, in.Creations*(in.Outage+pageRunway)/lowWaterRatio)
	}
	return max(capacityMin, ceil(least))
}
