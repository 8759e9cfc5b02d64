package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"keypool/loadtest"
)

// grace limits the time in which TryCheck reads links back after an interruption of the run.
const grace = 45 * time.Second

// Load creates links on one program at a constant rate and records them in a journal. Run, TryOne,
// Recorder, Figures and Entries may be called concurrently. Only one goroutine may call Start, Stop and
// AwaitMore.
type Load struct {
	r       T
	journal *loadtest.Journal
	load    *loadtest.Load

	mu       sync.Mutex
	recorder *loadtest.Recorder
	cancel   context.CancelFunc // nil while the load does not run
	done     chan struct{}
}

// Traffic returns a load on a server. The caller starts the load with Start or Run.
func Traffic(r T, server *Program) *Load {
	journal := loadtest.NewJournal()
	l := &Load{
		r: r, journal: journal,
		load: loadtest.NewLoad(server.Client, journal, 0), recorder: loadtest.NewRecorder(),
	}
	r.Cleanup(l.end)
	return l
}

// Start begins to create links at the given rate, in links per second. It records them with a new recorder and
// returns immediately.
func (l *Load) Start(rate float64) {
	ctx, cancel := context.WithCancel(l.r.Context())
	done, recorder := make(chan struct{}), loadtest.NewRecorder()
	l.mu.Lock()
	l.recorder = recorder
	l.mu.Unlock()
	l.cancel, l.done = cancel, done
	go func() {
		defer close(done)
		l.load.Run(ctx, loadtest.Schedule{Rate: rate}, recorder)
	}()
}

// Stop ends the load, waits for its last answer, and returns the figures of its recorder.
func (l *Load) Stop() loadtest.Figures {
	l.end()
	return l.Figures()
}

func (l *Load) end() {
	if l.cancel == nil {
		return
	}
	l.cancel()
	l.cancel = nil
	<-l.done
}

// Run creates links at the given rate, in links per second, until the duration d has passed or ctx ends. It records
// them with the given recorder. It may be called concurrently.
func (l *Load) Run(ctx context.Context, rate float64, d time.Duration, recorder *loadtest.Recorder) {
	l.load.Run(ctx, loadtest.Schedule{Rate: rate, Duration: d}, recorder)
}

// AwaitMore waits until the load that Start began has n more acknowledged links.
func (l *Load) AwaitMore(n int64) {
	enough := l.Figures().Acknowledged + n
	Wait(l.r, Patience, fmt.Sprintf("%d more links are acknowledged", n), func() bool { return l.Figures().Acknowledged >= enough })
}

// TryOne creates one link and returns its entry. It returns an error if the link is not acknowledged. It may be
// called concurrently.
func (l *Load) TryOne(ctx context.Context) (loadtest.Entry, error) {
	entry := l.load.One(ctx)
	if entry.State != loadtest.Acknowledged {
		return entry, fmt.Errorf("a creation ended in the state %q: %s", entry.State, entry.Detail)
	}
	return entry, nil
}

// Recorder returns the recorder of the last Start.
func (l *Load) Recorder() *loadtest.Recorder {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recorder
}

// Figures returns the figures of the recorder of the last Start.
func (l *Load) Figures() loadtest.Figures { return l.Recorder().Figures() }

// Entries returns the entries of all creations, in the order of their intents.
func (l *Load) Entries() []loadtest.Entry { return l.journal.Entries() }

// Check reads every acknowledged link of the loads back through a program and returns a verdict. The figures of the verdict
// count the creations of all loads. A lost or wrong link does not end the run, because a claim judges the
// verdict. If the check itself fails, Check ends the run. Check also works after an interruption of the run.
func Check(r T, through *Program, census loadtest.Census, loads ...*Load) loadtest.Verdict {
	v, err := TryCheck(r, through, census, loads...)
	must(r, err, "read the links back")
	r.Logf("%d links acknowledged, %d refused, %d unknown, %d unsent; %d read back: %d lost, %d wrong, %d duplicate, %d unread",
		v.Acknowledged, v.Refused, v.Unknown, v.Unsent, v.Checked, v.Lost, v.Wrong, v.Twice, v.Unread)
	return v
}

// TryCheck is like Check but returns an error. It may be called concurrently.
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
