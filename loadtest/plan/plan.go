// Package plan computes how large a deployment of Keypool must be: the length of its codes, its pool, its
// local batches, its database and its cache. It starts no program and measures nothing.
//
// Invariant: each figure of a [Plan] follows from the [Input], the alphabet of the codes and the table of
// [Constants]. Each constant names its source: a measurement, a setting, a paper or a manual.
//
// A year has 365 days. Sizes are in bytes, and 1 GB is 10^9 bytes.
package plan

import "math"

// year is the length of a year in seconds.
const year = 365 * 24 * 60 * 60

// Input describes the load and the requirements of an operator. All figures are positive, except that Redirects,
// Outage, Night and Zipf may be 0. CodeLength is from 3 to 10.
type Input struct {
	Creations  float64 `json:"creations_per_second"` // average
	Years      int     `json:"years"`
	Servers    int64   `json:"servers"`
	Outage     float64 `json:"outage_seconds"` // time without Redis, or without the worker, for which the existing keys must suffice
	Redirects  float64 `json:"redirects_per_second"`
	Capacity   int64   `json:"capacity_keys"` // capacity of the pool
	CodeLength int     `json:"code_length"`   // characters in the first codes
	Night      float64 `json:"night_seconds"` // wanted time from the signal page to the empty pool
	Zipf       float64 `json:"zipf_exponent"` // exponent s of Zipf's law for the popularity of links; see Redirects
}

// links returns how many links exist after the given seconds.
func (in Input) links(seconds float64) float64 { return in.Creations * seconds }

// Plan is what an Input needs.
type Plan struct {
	Input     Input      `json:"input"`
	Spaces    []Space    `json:"spaces"` // in the order of their lengths, from the length of the first codes to the longest
	Years     []Year     `json:"years"`  // the end of each year
	Pool      Pool       `json:"pool"`
	Local     Local      `json:"local"`
	Outage    Outage     `json:"outage"`
	Database  Database   `json:"database"`
	Redirects Redirects  `json:"redirects"`
	Constants []Constant `json:"constants"`
}

// Make returns the plan for an input.
func Make(in Input) *Plan {
	local := in.local()
	return &Plan{
		Input: in, Spaces: in.spaces(), Years: in.years(), Pool: in.pool(), Local: local, Outage: in.outage(local),
		Database: in.database(), Redirects: in.redirects(), Constants: Constants(),
	}
}

// Database is the PostgreSQL database of the links at the end of the plan.
type Database struct {
	Links          int64   `json:"links"`
	TableBytes     float64 `json:"table_bytes"`
	IndexBytes     float64 `json:"index_bytes"`
	LogBytes       float64 `json:"wal_bytes_per_second"`
	SQLiteBytes    float64 `json:"sqlite_bytes"`     // the same links in SQLite
	Nodes          int64   `json:"nodes_at_least"`   // PostgreSQL servers that store links
	Shards         int64   `json:"shards"`           // parts of the table of links; 1 without Citus
	ServersAtLeast int64   `json:"servers_at_least"` // needed for the creations and redirects
}

func (in Input) database() Database {
	links := in.links(float64(in.Years) * year)
	d := Database{
		Links: int64(links), TableBytes: links * tableBytesPerLink, IndexBytes: links * indexBytesPerLink,
		LogBytes: in.Creations * logBytesPerLink, SQLiteBytes: links * sqliteBytesPerLink, Shards: 1,
		ServersAtLeast: ceil(in.Creations/creationsPerMachine + in.Redirects/redirectsPerMachine),
	}
	// One PostgreSQL is enough if it can make all creations and the table of links is within PostgreSQL's limit for a table. On
	// Citus, a creation needs more processor time. Each shard is a table of its own, so the limit for a table determines the
	// number of shards, but not the number of nodes.
	d.Nodes = 1
	if in.Creations > creationsPerMachine || d.TableBytes > relationLimit {
		d.Nodes = ceil(in.Creations * citusCost / creationsPerMachine)
		d.Shards = max(shardCount, d.Nodes, ceil(d.TableBytes/relationLimit))
	}
	return d
}

func ceil(v float64) int64 { return int64(math.Ceil(v)) }
