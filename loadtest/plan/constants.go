package plan

// The constants of a plan. The function Constants states their sources.
const (
	redisBytesPerKey = 8.07
	capacityMin      = 100
	capacityLimit    = 10_000_000_000
	refillRate       = 2.94e6 // keys per second
	restartRatio     = 0.2    // level of the signal restart, as a share of the capacity
	pageRatio        = 0.1    // level of the signal page, as a share of the capacity
	lowWaterRatio    = 0.9    // low-water mark, as a share of the capacity
	restartRunway    = 60     // seconds; limit of the runway for the signal restart
	pageRunway       = 30     // seconds; limit of the runway for the signal page
	stillAfter       = 10     // seconds without a new key, after which the limits of the runway apply
	lookInterval     = 1      // seconds between two looks of the dead man's switch at the pool

	batchSeconds = 2
	batchMin     = 100
	batchMax     = 100_000
	batchLimit   = 1_000_000
	localBatches = 2

	tableBytesPerLink   = 126.0
	indexBytesPerLink   = 54.0
	sqliteBytesPerLink  = 110.6
	logBytesPerLink     = 189
	creationsPerMachine = 10_486 // creations per second
	redirectsPerMachine = 20_972 // redirects per second
	citusCost           = 1.82   // processor time of a creation on Citus, relative to plain PostgreSQL
	answerBytes         = 191

	cachedLinks    = 1 << 16
	freshness      = 0.9 // seconds
	smallestZipf   = 0.6
	greatestZipf   = 1.03
	relationLimit  = 32 << 40 // bytes
	shardCount     = 128
	characters     = 62
	characters64   = 64
	urlBytes       = 65 // bytes
	measuredServer = "docs/benchmarks.md, Full load test, 2026-11-22"
	measuredSizes  = "docs/benchmarks.md, Sizes, 2026-11-24"
)

// Constant is a figure that plans depend on.
type Constant struct {
	Name   string  `json:"name"` // ends with its unit where the value has one
	Value  float64 `json:"value"`
	Source string  `json:"source"` // the measurement, setting, source file, paper or manual
}

// Constants returns every constant.
func Constants() []Constant {
	return []Constant{
		{"alphabet_characters", characters, "kgs/codespace/space.go, Alphabet"},
		{"base64url_characters", characters64, "RFC 4648, section 5"},
		{"redis_bytes_per_key", redisBytesPerKey, measuredServer},
		{"pool_keys_min", capacityMin, "cmd/internal/config/config.go, PoolCapacity"},
		{"pool_keys_limit", capacityLimit, "cmd/internal/config/config.go, PoolCapacity"},
		{"refill_keys_per_second", refillRate, "docs/benchmarks.md, Bars, 2026-11-23"},
		{"restart_level_ratio", restartRatio, "docs/configuration.md, KGS_RESTART_BELOW"},
		{"page_level_ratio", pageRatio, "docs/configuration.md, KGS_PAGE_BELOW"},
		{"low_water_ratio", lowWaterRatio, "kgs/refill/worker.go, LowWater"},
		{"restart_runway_limit_seconds", restartRunway, "kgs/refill/deadman_state.go, restartRunway"},
		{"page_runway_limit_seconds", pageRunway, "kgs/refill/deadman_state.go, pageRunway"},
		{"no_new_key_seconds", stillAfter, "kgs/refill/deadman_state.go, stillAfter"},
		{"look_interval_seconds", lookInterval, "kgs/refill/deadman.go, lookInterval"},
		{"batch_seconds", batchSeconds, "kgs/source.go, SourceConfig.Hold"},
		{"batch_keys_min", batchMin, "docs/configuration.md, KGS_BATCH_MIN"},
		{"batch_keys_max", batchMax, "docs/configuration.md, KGS_BATCH_MAX"},
		{"batch_keys_limit", batchLimit, "cmd/internal/config/config.go, BatchMin"},
		{"batches_per_server", localBatches, "docs/benchmarks.md, Load test, 2026-11-22"},
		{"table_bytes_per_link", tableBytesPerLink, measuredSizes},
		{"index_bytes_per_link", indexBytesPerLink, measuredSizes},
		{"sqlite_bytes_per_link", sqliteBytesPerLink, measuredSizes},
		{"url_bytes", urlBytes, measuredSizes},
		{"wal_bytes_per_link", logBytesPerLink, "docs/benchmarks.md, Bars, 2026-11-23"},
		{"creations_per_second_two_cores", creationsPerMachine, measuredServer},
		{"redirects_per_second_two_cores", redirectsPerMachine, measuredServer},
		{"creation_cost_citus_ratio", citusCost, "docs/benchmarks.md, Links on Citus"},
		{"redirect_answer_bytes", answerBytes, measuredSizes},
		{"cached_links", cachedLinks, "shortener/service/cache.go, DefaultCacheSize"},
		{"cache_fresh_seconds", freshness, "shortener/service/cache.go, Freshness"},
		{"zipf_exponent_smallest", smallestZipf, "S. Krashakov et al., arXiv:cs/0404010, section 1"},
		{"zipf_exponent_greatest", greatestZipf, "S. Krashakov et al., arXiv:cs/0404010, section 1"},
		{"relation_bytes_max", relationLimit, "PostgreSQL manual, Appendix K"},
		{"shards", shardCount, "Citus manual, Cluster Management, Shard Count"},
	}
}
