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

// traffic makes links on one service and keeps the accounts of them.
type traffic struct {
	client   *loadtest.Client
	journal  *loadtest.Journal
	recorder *loadtest.Recorder
	load     *loadtest.Load
}

// newTraffic records with recorder, which several may share.
func newTraffic(target string, recorder *loadtest.Recorder) (*traffic, error) {
	journal, err := loadtest.CreateJournal("")
	if err != nil {
		return nil, err
	}
	client := loadtest.NewClient(target, 0)
	return &traffic{
		client: client, journal: journal, recorder: recorder, load: loadtest.NewLoad(client, journal, 0),
	}, nil
}

// run makes links at so many a second for so long, or until ctx ends, and returns when the
// last one has its outcome.
func (t *traffic) run(ctx context.Context, rate float64, duration time.Duration) error {
	return t.with(ctx, rate, duration, t.recorder)
}

// with is run with another recorder.
func (t *traffic) with(ctx context.Context, rate float64, duration time.Duration, r *loadtest.Recorder) error {
	return t.load.Run(ctx, loadtest.Schedule{Rate: rate, Duration: duration}, r)
}

// flow is a load that is under way.
type flow struct {
	cancel context.CancelFunc
	done   chan error
}

// start makes links at so many a second until the flow is ended, or ctx ends.
func (t *traffic) start(ctx context.Context, rate float64) *flow {
	ctx, cancel := context.WithCancel(ctx)
	f := &flow{cancel: cancel, done: make(chan error, 1)}
	go func() { f.done <- t.run(ctx, rate, 0) }()
	return f
}

// end stops the flow and waits for the last outcome. It is called once.
func (f *flow) end() error {
	f.cancel()
	return <-f.done
}

// judge reads back all links and gives what the traffic comes to. It may be called after
// ctx has ended.
func (t *traffic) judge(ctx context.Context) (loadtest.Verdict, error) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	entries := t.journal.Entries()
	checker := loadtest.Checker{Client: t.client}
	findings, err := checker.Check(ctx, entries)
	return loadtest.Verdict{Figures: loadtest.Count(entries), Findings: findings}, err
}

func (t *traffic) close() { t.client.Close() }

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
