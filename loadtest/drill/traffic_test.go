//go:build drill

package drill

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"keypool/loadtest"
)

// traffic is a load that runs beside a drill.
type traffic struct {
	t        *testing.T
	journal  *loadtest.Journal
	load     *loadtest.Load
	recorder *loadtest.Recorder
	cancel   context.CancelFunc
	done     chan error
}

// newTraffic prepares a load on s; it does not run yet.
func newTraffic(t *testing.T, s *service) *traffic {
	t.Helper()
	journal, err := loadtest.CreateJournal(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
	return &traffic{t: t, journal: journal, load: loadtest.NewLoad(s.client, journal, 0)}
}

// start begins to make links at a rate per second, until stop.
func (tr *traffic) start(rate float64) {
	ctx, cancel := context.WithCancel(tr.t.Context())
	tr.cancel, tr.done, tr.recorder = cancel, make(chan error, 1), loadtest.NewRecorder()
	go func() { tr.done <- tr.load.Run(ctx, loadtest.Schedule{Rate: rate}, tr.recorder) }()
}

// stop ends the load, waits for its last answer, and returns what happened since start.
func (tr *traffic) stop() loadtest.Figures {
	tr.t.Helper()
	tr.cancel()
	if err := <-tr.done; err != nil {
		tr.t.Fatal(err)
	}
	return tr.recorder.Figures()
}

// during makes links for d and returns what happened.
func (tr *traffic) during(rate float64, d time.Duration) loadtest.Figures {
	tr.t.Helper()
	tr.start(rate)
	pass(tr.t, d)
	return tr.stop()
}

// awaitMore waits until n more links were acknowledged.
func (tr *traffic) awaitMore(n int64) {
	tr.t.Helper()
	enough := tr.recorder.Figures().Acknowledged + n
	await(tr.t, patient, "links are made", func() bool { return tr.recorder.Figures().Acknowledged >= enough })
}

// judge has every link of the journals read back through s, and fails the test for
// every one that is not what was promised.
func judge(t *testing.T, s *service, census loadtest.Census, loads ...*traffic) {
	t.Helper()
	var entries []loadtest.Entry
	for _, load := range loads {
		entries = append(entries, load.journal.Entries()...)
	}
	checker := loadtest.Checker{Client: s.client, Census: census}
	findings, err := checker.Check(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	figures := loadtest.Count(entries)
	t.Logf("sent %d, acknowledged %d, refused %d, unknown %d, unsent %d; read back %d, lost %d, wrong %d, twice %d",
		figures.Sent, figures.Acknowledged, figures.Refused, figures.Unknown, figures.Unsent,
		findings.Checked, findings.Lost, findings.Wrong, findings.Twice)
	if findings.Broken() > 0 || findings.Checked == 0 {
		t.Errorf("a guarantee is broken: %+v", findings)
	}
}
