package scenario

import "testing"

func TestMix(t *testing.T) {
	t.Parallel()
	s := execute(t, "mix", quiet())
	mustHold(t, s, claimVisitP99)
	if len(s.Charts) != 2 || len(s.Tables) != 1 {
		t.Errorf("%d charts and %d tables", len(s.Charts), len(s.Tables))
	}
}
