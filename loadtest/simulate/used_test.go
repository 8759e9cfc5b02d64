package simulate

import (
	"math/rand/v2"
	"testing"
)

func TestEachRepeatedUseOfNumberIsCounted(t *testing.T) {
	t.Parallel()
	u, n := newUsedNumbers(), 3*usedChunk+1
	order := rand.Perm(n)
	for _, number := range append(order, order[:usedChunk+2]...) {
		u.add(codes([]keyRange{{int64(number), int64(number) + 1}})[0])
	}
	if got := u.close(); got != usedChunk+2 {
		t.Errorf("%d numbers were used twice, want %d", got, usedChunk+2)
	}
	if got := newUsedNumbers().close(); got != 0 {
		t.Errorf("close returns %d numbers that were used twice, but no number was used", got)
	}
}
