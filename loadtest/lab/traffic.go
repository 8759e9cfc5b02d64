package lab

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"keypool/loadtest"
)

// grace is how long links can be read back after the run was interrupted.
const grace = 45 * time.Second

// Load makes links on one program at a constant rate and keeps the journal of all of them.
// Figures, Entries and TryOne may be called concurrently; all other methods are for one goroutine.
type Load struct {
	r       T
	journal *loadtest.Journal
	load    *loadtest.Load

	mu       sync.Mutex
	recorder *loadtest.Recorder
	cancel   context.CancelFunc // nil while the load does not run
	done     chan error
}

// Traffic prepares a load on a program. It is not started yet.
func Traffic(r T, on *Program) *Load {
	journal, err := loadtest.CreateJournal("")
	must(r, err, "create a journal")
	l := &Load{
		r: r, journal: journal,
		load: loadtest.NewLoad(on.Client, journal, 0), recorder: loadtest.NewRecorder(),
	}
	r.Cleanup(func() {
		if err := l.end(); err != nil {
			r.Errorf("end a load: %v", err)
		}
	})
	return l
}

// Start begins to make links at a rate per second, with a new recorder.
func (l *Load) Start(rate float64) {
	ctx, cancel := context.WithCancel(l.r.Context())
	done, recorder := make(chan error, 1), loadtest.NewRecorder()
	l.mu.Lock()
	l.recorder = recorder
	l.mu.Unlock()
	l.cancel, l.done = cancel, done
	go func() { done <- l.load.Run(ctx, loadtest.Schedule{Rate: rate}, recorder) }()
}

// Stop ends the load, waits for its last answer, and returns what its recorder holds.
func (l *Load) Stop() loadtest.Figures {
	must(l.r, l.end(), "make links")
	return l.Figures()
}

func (l *Load) end() error {
	if l.cancel == nil {
		return nil
	}
	l.cancel()
	l.cancel = nil
	return <-l.done
}

// Run makes links for a time, or until ctx ends, and records them with another recorder. It
// may be called concurrently.
func (l *Load) Run(ctx context.Context, rate float64, d time.Duration, recorder *loadtest.Recorder) error {
	return l.load.Run(ctx, loadtest.Schedule{Rate: rate, Duration: d}, recorder)
}

// AwaitMore waits until n more links were acknowledged.
func (l *Load) AwaitMore(n int64) {
	enough := l.Figures().Acknowledged + n
	Wait(l.r, Patience, "links are made", func() bool { return l.Figures().Acknowledged >= enough })
}

// TryOne makes one link and returns its entry. The error says that the journal failed. It may be
// called concurrently.
func (l *Load) TryOne(ctx context.Context) (loadtest.Entry, error) { return l.load.One(ctx) }

// Recorder is that of the last Start.
func (l *Load) Recorder() *loadtest.Recorder {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recorder
}

// Figures is what the recorder holds.
func (l *Load) Figures() loadtest.Figures { return l.Recorder().Figures() }

// Entries are the entries of all creations, in the order of their intents.
func (l *Load) Entries() []loadtest.Entry { return l.journal.Entries() }

// Check reads every link of the loads back through a program. The figures count the creations
// of all loads. A claim judges the verdict; a check that cannot be done ends the run. Links
// are read back also when the run was interrupted.
func Check(r T, through *Program, census loadtest.Census, loads ...*Load) loadtest.Verdict {
	v, err := TryCheck(r, through, census, loads...)
	must(r, err, "read the links back")
	r.Logf("%d links acknowledged, %d refused, %d unknown, %d unsent; %d read back: %d lost, %d wrong, %d twice, %d unread",
		v.Acknowledged, v.Refused, v.Unknown, v.Unsent, v.Checked, v.Lost, v.Wrong, v.Twice, v.Unread)
	return v
}

// TryCheck is Check with an error. It may be called concurrently.
func TryCheck(r T, through *Program, census loadtest.Census, loads ...*Load) (loadtest.Verdict, error) {
	ctx := r.Context()
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
	}
	var entries []loadtest.Entry
	for _, l := range loads {
		entries = slices.Concat(entries, l.Entries())
	}
	checker := loadtest.Checker{Client: through.Client, Census: census}
	findings, err := checker.Check(ctx, entries)
	if err == nil && len(loads) == 0 {
		err = errors.New("there is no load to check")
	}
	return loadtest.Verdict{Figures: loadtest.Count(entries), Findings: findings}, err
}
