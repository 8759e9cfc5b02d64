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
