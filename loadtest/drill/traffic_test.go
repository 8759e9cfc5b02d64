//go:build drill

package drill

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"keypool/loadtest"
)

// traffic is a load that runs beside a drill.
type traffic struct {
	d        *drill
	journal  *loadtest.Journal
	load     *loadtest.Load
	recorder *loadtest.Recorder
	cancel   context.CancelFunc // nil while it does not run
	done     chan error
}

// newTraffic prepares a load on s; it does not run yet.
func newTraffic(d *drill, s *service) *traffic {
	d.Helper()
	journal, err := loadtest.CreateJournal(filepath.Join(d.TempDir(), "journal"))
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		if err := journal.Close(); err != nil {
			d.Error(err)
		}
	})
	tr := &traffic{d: d, journal: journal, load: loadtest.NewLoad(s.client, journal, 0)}
	d.Cleanup(func() { // before the journal is closed: the drill may have ended early
		if tr.cancel != nil {
			tr.stop()
		}
	})
	return tr
}

// start begins to make links at a rate per second, until stop.
func (tr *traffic) start(rate float64) { tr.resume(rate, loadtest.NewRecorder()) }

// resume is start with a recorder that goes on from an earlier load.
func (tr *traffic) resume(rate float64, recorder *loadtest.Recorder) {
	ctx, cancel := context.WithCancel(tr.d.Context())
	tr.cancel, tr.done, tr.recorder = cancel, make(chan error, 1), recorder
	go func() { tr.done <- tr.load.Run(ctx, loadtest.Schedule{Rate: rate}, recorder) }()
}

// stop ends the load, waits for its last answer, and returns what its recorder has.
func (tr *traffic) stop() loadtest.Figures {
	tr.d.Helper()
	tr.cancel()
	tr.cancel = nil
	if err := <-tr.done; err != nil {
		tr.d.Fatal(err)
	}
	figures := tr.recorder.Figures()
	tr.d.waited(figures.Latency)
	return figures
}

// during makes links for a time and returns what happened.
func (tr *traffic) during(rate float64, length time.Duration) loadtest.Figures {
	tr.d.Helper()
	tr.start(rate)
	pass(tr.d, length)
	return tr.stop()
}

// awaitMore waits until n more links were acknowledged.
func (tr *traffic) awaitMore(n int64) {
	tr.d.Helper()
	enough := tr.recorder.Figures().Acknowledged + n
	await(tr.d, patient, "links are made", func() bool { return tr.recorder.Figures().Acknowledged >= enough })
}

// judge has every link of the journals read back through s, and fails the test for
// every one that is not what was promised.
func judge(d *drill, s *service, census loadtest.Census, loads ...*traffic) {
	d.Helper()
	var entries []loadtest.Entry
	for _, load := range loads {
		entries = append(entries, load.journal.Entries()...)
	}
	checker := loadtest.Checker{Client: s.client, Census: census}
	findings, err := checker.Check(d.Context(), entries)
	if err != nil {
		d.Fatal(err)
	}
	figures := loadtest.Count(entries)
	d.Logf("sent %d, acknowledged %d, refused %d, unknown %d, unsent %d; read back %d, lost %d, wrong %d, twice %d",
		figures.Sent, figures.Acknowledged, figures.Refused, figures.Unknown, figures.Unsent,
		findings.Checked, findings.Lost, findings.Wrong, findings.Twice)
	d.judged(figures, findings)
	if findings.Broken() > 0 || findings.Checked == 0 {
		d.Errorf("of %d links %d are lost, %d wrong, %d there twice, %d unread: %s", findings.Checked,
			findings.Lost, findings.Wrong, findings.Twice, findings.Unread, strings.Join(findings.Reports, "\n"))
	}
}
