package lab

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestValueSelectsExactlyOneRow(t *testing.T) {
	t.Parallel()
	mustPass(t, func(r *run) {
		address := Postgres(r).URL
		if pair := Value[[2]int64](r, address, "SELECT ARRAY[$1::bigint, 8]", 7); pair != [2]int64{7, 8} {
			t.Errorf("array %v, want [7 8]", pair)
		}
		counts := Value[map[string]int64](r, address, "SELECT jsonb_object_agg(name, n) FROM (VALUES ('a', 1::bigint), ('b', 2)) AS v (name, n)")
		if !maps.Equal(counts, map[string]int64{"a": 1, "b": 2}) {
			t.Errorf("object %v, want a:1 b:2", counts)
		}
		all, err := Values[int](t.Context(), address, "SELECT n::int4 FROM generate_series(1, 3) AS n WHERE n = ANY($1)", []int{1, 3})
		if err != nil || !slices.Equal(all, []int{1, 3}) {
			t.Errorf("values %v, error %v, want [1 3]", all, err)
		}
		if _, err := TryValue[int](t.Context(), address, "SELECT generate_series(1, 2)"); err == nil || !strings.Contains(err.Error(), "2 rows, want 1") {
			t.Errorf("error %v for two rows", err)
		}
		if _, err := TryValue[bool](t.Context(), address, "SELECT bool_and(n > 0) FROM generate_series(1, 0) AS n"); err == nil {
			t.Error("no error for NULL")
		}
	})
}
