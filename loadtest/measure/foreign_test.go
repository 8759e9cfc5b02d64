package measure

import (
	"testing"

	"github.com/prometheus/procfs"
)

// The processor time of this process is not foreign.
func TestForeign(t *testing.T) {
	t.Parallel()
	before := processors{all: 100, busy: 50, ours: 20}
	if got := (processors{all: 200, busy: 110, ours: 50}).foreign(before); got != 0.3 {
		t.Errorf("foreign share %v, want 0.3", got)
	}
	p, err := readProcessors()
	if err != nil || p.ours < 0 || p.busy < p.ours || p.all < p.busy {
		t.Errorf("%+v, error %v", p, err)
	}
	if share := Observe().foreign(); share < 0 || share > 1 {
		t.Errorf("share %v", share)
	}
}

func TestUnfit(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{
		0: "", 0.2: "", 0.5: "foreign programs took 50 % of the processors meanwhile, more than 20 %",
	} {
		if got := unfit(share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}

// The time of a child that has ended stays ours.
func TestFamily(t *testing.T) {
	t.Parallel()
	const initial, us, child, grandchild, other = 1, 10, 11, 12, 20
	running := []procfs.ProcStat{
		{PID: initial, UTime: 900}, {PID: us, PPID: initial, UTime: 100, STime: 50}, {PID: child, PPID: us, UTime: 200, CUTime: 10},
		{PID: grandchild, PPID: child, STime: 40}, {PID: other, PPID: initial, UTime: 7000, CUTime: 100},
	}
	if got := family(running, us); got != 4 {
		t.Errorf("the family took %v s, want 4", got)
	}
	ended := []procfs.ProcStat{running[0], {PID: us, PPID: initial, UTime: 100, STime: 50, CUTime: 210, CSTime: 40}, running[4]}
	if got := family(ended, us); got != 4 {
		t.Errorf("after its children ended the family took %v s, want 4", got)
	}
}
