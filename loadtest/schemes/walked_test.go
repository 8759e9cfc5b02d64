package schemes

import "testing"

func TestSkipped(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		numbers []int64
		step    int64
		want    int64
	}{
		{"none", nil, 1, 0},
		{"one", []int64{7}, 1, 0},
		{"in a row", []int64{7, 8, 9}, 1, 0},
		{"in any order", []int64{9, 7, 8}, 1, 0},
		{"a batch of a hundred that a crash took", []int64{0, 1, 102, 103}, 1, 100},
		{"odd and even in a row", []int64{1, 2, 3, 4}, 2, 0},
		{"odd far ahead of even", []int64{1001, 1003, 2, 4}, 2, 0},
		{"two of the odd ones", []int64{1, 7, 2, 4}, 2, 2},
	}
	for _, tt := range tests {
		if got := skipped(tt.numbers, tt.step); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// mustCountReserved plants keys of the dead in the database of r, which has none. One that is
// a link was not skipped, and one that nobody took neither.
func mustCountReserved(t *testing.T, g *stage, r *running) {
	t.Helper()
	for _, text := range []string{
		`INSERT INTO available_keys (id, key, is_reserved) VALUES (1, 'linked', true), (2, 'taken', true), (3, 'free', false)`,
		`INSERT INTO used_keys (id, key) VALUES (4, 'spent'), (5, 'gone')`,
		`INSERT INTO links (code, url, source, created_at) SELECT code, 'https://loadtest.example/', 'postgres-pool', now() FROM unnest('{linked,spent}'::text[]) AS c (code)`,
	} {
		if err := statement(t.Context(), r.links, text); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := keysGone(t.Context(), g, r)
	if err != nil || gone != 1 {
		t.Errorf("%d keys are gone, error %v; want 1", gone, err)
	}
	if n, err := keysReserved(t.Context(), g, r); err != nil || n != 2 {
		t.Errorf("%d keys are gone or reserved, error %v; want 2", n, err)
	}
}
