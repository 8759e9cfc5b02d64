package experiment

import (
	"testing"
	"time"

	"keypool/loadtest/report"
)

func TestForeignProcessorShareExcludesOwnProcess(t *testing.T) {
	t.Parallel()
	before := processors{all: 100, busy: 50, ours: 20}
	if got := (processors{all: 200, busy: 110, ours: 50}).foreign(before); got != 0.3 {
		t.Errorf("the foreign share is %v, want 0.3", got)
	}
	if got := (processors{all: 100.00000000000001, busy: 100.1}).foreign(processors{}); got != 1 {
		t.Errorf("the foreign share of a busy machine is %v, want 1", got)
	}
	p, err := readProcessors()
	if err != nil || p.ours < 0 || p.busy < p.ours || p.all < p.busy {
		t.Errorf("readProcessors returns the times %+v and the error %v; no part may be greater than the whole", p, err)
	}
	if d := observe()(); d.foreign < 0 || d.foreign > 1 || d.write <= 0 {
		t.Errorf("the disturbance is %+v, want a foreign share of 0 to 1 and a time above 0 for a write", d)
	}
}

func TestBusyMachineMakesFailedTimedClaimsInconclusive(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind    report.Kind
		outcome report.Outcome
		disturbance
		certain bool
		want    report.Outcome
	}{
		{report.Speed, report.Failed, disturbance{foreign: 0.4}, false, report.Inconclusive},
		{report.Availability, report.Failed, disturbance{foreign: 0.4}, false, report.Inconclusive},
		{report.Correctness, report.Failed, disturbance{foreign: 0.4}, false, report.Failed},
		{report.Speed, report.Held, disturbance{foreign: 0.4}, false, report.Held},
		{report.Speed, report.NotJudged, disturbance{foreign: 0.4}, false, report.NotJudged},
		{report.Speed, report.Failed, disturbance{foreign: 0.2}, false, report.Failed},
		{report.Availability, report.Failed, disturbance{foreign: 0}, false, report.Failed},
		{report.Availability, report.Failed, disturbance{foreign: 0.4}, true, report.Failed},
		{report.Availability, report.Failed, disturbance{write: 600 * time.Millisecond}, false, report.Inconclusive},
		{report.Availability, report.Failed, disturbance{write: 500 * time.Millisecond}, false, report.Failed},
		{report.Correctness, report.Failed, disturbance{write: time.Second}, false, report.Failed},
	} {
		claims := []report.Claim{{Kind: tt.kind, Outcome: tt.outcome}}
		if excuse(claims, []bool{tt.certain}, tt.disturbance); claims[0].Outcome != tt.want {
			t.Errorf("%s %s with the disturbance %+v: %s, want %s", tt.kind, tt.outcome, tt.disturbance, claims[0].Outcome, tt.want)
		}
	}
}
