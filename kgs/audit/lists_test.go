package audit

import (
	"testing"

	"keypool/kgs/ledger"
)

// The first epoch of a list other than list 0 abandons no keys. So a number that was reserved before this epoch and is
// in no place is missing. But if any list has begun a second epoch since then, the number may be lost with an earlier
// epoch.
func TestFirstEpochOfAnotherPoolListAbandonsNoKeys(t *testing.T) {
	t.Parallel()
	at := func(epoch int64, list int, next int64) ledger.Boundary {
		return ledger.Boundary{Epoch: ledger.Epoch{Number: epoch}, List: list, Length: 6, Next: next}
	}
	b := ledger.Snapshot{Spaces: []ledger.SpaceCounter{{Length: 6, Next: 300}}, Boundaries: []ledger.Boundary{at(1, 0, 0), at(2, 1, 100)}}
	for _, s := range sections(b) {
		if s.over {
			t.Errorf("section %+v is over although no list began a second epoch", s)
		}
	}
	b.Boundaries = append(b.Boundaries, at(3, 1, 200))
	for _, s := range sections(b) {
		if want := s.epoch < 3; s.over != want {
			t.Errorf("section %+v: over is %v, want %v after a second epoch of list 1", s, s.over, want)
		}
	}
}
