package scenario

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"keypool/loadtest"
)

// graceAfter is how long a scenario may take, after its context has ended, to look at what
// it made until then.
const graceAfter = 45 * time.Second

// afterwards is a context for what is still to be done when ctx has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), graceAfter)
}

// Traffic makes links on one service and keeps the accounts of them. It may be used
// concurrently.
type Traffic struct {
	client   *loadtest.Client
	journal  *loadtest.Journal
	recorder *loadtest.Recorder
	load     *loadtest.Load
}

// NewTraffic makes traffic on the service at the URL target, and records with recorder,
// which several may share.
func NewTraffic(target string, recorder *loadtest.Recorder) (*Traffic, error) {
	journal, err := loadtest.CreateJournal("")
	if err != nil {
		return nil, err
	}
	client := loadtest.NewClient(target, 0)
	return &Traffic{
		client: client, journal: journal, recorder: recorder, load: loadtest.NewLoad(client, journal, 0),
	}, nil
}

// run makes links at so many a second for so long, or until ctx ends, and returns when the
// last one has its outcome.
func (t *Traffic) run(ctx context.Context, rate float64, duration time.Duration) error {
	return t.with(ctx, rate, duration, t.recorder)
}

// with is run with another recorder.
func (t *Traffic) with(ctx context.Context, rate float64, duration time.Duration, r *loadtest.Recorder) error {
	return t.load.Run(ctx, loadtest.Schedule{Rate: rate, Duration: duration}, r)
}

// Flow is a load that is under way.
type Flow struct {
	cancel context.CancelFunc
	done   chan error
}

// Start makes links at so many a second until the flow is ended, or ctx ends.
func (t *Traffic) Start(ctx context.Context, rate float64) *Flow {
	ctx, cancel := context.WithCancel(ctx)
	f := &Flow{cancel: cancel, done: make(chan error, 1)}
	go func() { f.done <- t.run(ctx, rate, 0) }()
	return f
}

// End stops the flow and waits for the last outcome. It is called once.
func (f *Flow) End() error {
	f.cancel()
	return <-f.done
}

// Judge reads back all links and gives what the traffic comes to. It may be called after
// ctx has ended.
func (t *Traffic) Judge(ctx context.Context) (loadtest.Verdict, error) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	entries := t.journal.Entries()
	checker := loadtest.Checker{Client: t.client}
	findings, err := checker.Check(ctx, entries)
	return loadtest.Verdict{Figures: loadtest.Count(entries), Findings: findings}, err
}

// One makes one link. The error is that the accounts cannot be kept.
func (t *Traffic) One(ctx context.Context) (loadtest.Outcome, error) {
	entry, err := t.journal.Intend()
	if err != nil {
		return loadtest.Outcome{}, err
	}
	outcome := t.client.Create(ctx, entry.URL)
	return outcome, t.journal.Settle(entry.N, outcome)
}

// Entries is what became of each creation, in the order of their intents.
func (t *Traffic) Entries() []loadtest.Entry { return t.journal.Entries() }

// Close closes the connections that are idle.
func (t *Traffic) Close() { t.client.Close() }

// absent says which server is missing.
func absent(err error) string {
	if lookup, ok := errors.AsType[*exec.Error](err); ok {
		return lookup.Name + " is not installed"
	}
	return err.Error()
}

// missing reports that err says that a server is not installed, which is no fault of what
// is tested.
func missing(err error) bool { return errors.Is(err, exec.ErrNotFound) }
