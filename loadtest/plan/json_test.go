package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"keypool/loadtest/report"
)

// members lists every member of the JSON with its type. A change of this list can break scripts
// of operators.
const members = `
constants[].name string
constants[].source string
constants[].value number
database.index_bytes number
database.links number
database.nodes_at_least number
database.servers_at_least number
database.shards number
database.sqlite_bytes number
database.table_bytes number
database.wal_bytes_per_second number
input.capacity_keys number
input.code_length number
input.creations_per_second number
input.night_seconds number
input.outage_seconds number
input.redirects_per_second number
input.servers number
input.years number
input.zipf_exponent number
local.all_servers_keys_at_most number
local.batch_keys number
local.bridges_seconds_at_least number
local.server_keys_at_most number
outage.bridging_batch_keys number
outage.bridging_capacity_keys number
outage.creations number
outage.fallback_ratio_at_most number
outage.seconds number
pool.capacity_keys number
pool.night_capacity_keys number
pool.night_redis_bytes number
pool.page_below_keys number
pool.page_runway_seconds number
pool.redis_bytes number
pool.refill_seconds number
pool.restart_below_keys number
pool.restart_runway_seconds number
pool.runway_seconds number
redirects.answer_bits_per_second number
redirects.cache_hit_ratio number
redirects.database_lookups_per_second number
redirects.server_answer_bits_per_second number
spaces[].full_after_seconds number
spaces[].key_database_bytes number
spaces[].key_database_bytes_base64 number
spaces[].keys number
spaces[].length number
years[].fallback_attempts_expected number
years[].index_bytes number
years[].links number
years[].space_length number
years[].space_used_ratio number
years[].table_bytes number
years[].year number
`

func TestPlanJSONHasExactlyExpectedMembers(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := report.WriteIndented(&b, Make(reference())); err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(b.Bytes(), &value); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				walk(strings.TrimPrefix(path+"."+name, "."), member)
			}
		case []any:
			for _, element := range v {
				walk(path+"[]", element)
			}
		case float64:
			found[path+" number"] = true
		default:
			found[fmt.Sprintf("%s %T", path, v)] = true
		}
	}
	walk("", value)
	if got := strings.Join(slices.Sorted(maps.Keys(found)), "\n"); got != strings.TrimSpace(members) {
		t.Errorf("the members are\n%s", got)
	}
	// Large whole numbers are written with all digits, not with an exponent.
	for _, want := range []string{`"keys": 56800235584,`, `"key_database_bytes": 340801413504,`, `"key_database_bytes_base64": 412316860416,`, `"capacity_keys": 100000000,`, `"runway_seconds": 100000,`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the JSON does not contain %s:\n%s", want, &b)
		}
	}
}
