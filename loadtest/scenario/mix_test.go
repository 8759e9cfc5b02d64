package scenario

import (
	"fmt"
	"testing"
)

func TestMix(t *testing.T) {
	t.Parallel()
	s := execute(t, "mix", quiet())
	mustHold(t, s, claimVisitP99)
	if len(s.Charts) != 2 || len(s.Tables) != 1 {
		t.Errorf("%d charts and %d tables", len(s.Charts), len(s.Tables))
	}
}

// A redirect that leads elsewhere, which is a failed visit too, counts once.
func TestStraysCountOnce(t *testing.T) {
	t.Parallel()
	s := execute(t, "mix", (&broken{strays: true}).start(t))
	p := Part{s}
	c := p.find(claimVisits)
	var checked, nowhere, elsewhere, steady, others int
	_, err := fmt.Sscanf(c.Why, "of %d redirects at all rates %d led nowhere and %d elsewhere; of %d at the steady rate %d others",
		&checked, &nowhere, &elsewhere, &steady, &others)
	if err != nil || elsewhere == 0 || nowhere != 0 || others != 0 || *c.Observed != float64(elsewhere) {
		t.Errorf("%v observed, error %v: %s", *c.Observed, err, c.Why)
	}
}
