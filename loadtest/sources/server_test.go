//go:build drill

package sources

import (
	"context"
	"fmt"
	"slices"

	"keypool/loadtest"
	"keypool/loadtest/testbed"

	"golang.org/x/sync/errgroup"
)

// server is one process of a source, with all links that were ever asked of it.
type server struct {
	*testbed.Program
	client  *loadtest.Client
	journal *loadtest.Journal
	judged  int // entries of the journal that were read back
}

func (st *stand) server(ctx context.Context, more ...string) (*server, error) {
	program, err := st.bed.Server(ctx, slices.Concat(st.settings, more)...)
	if err != nil {
		return nil, err
	}
	journal, err := loadtest.CreateJournal("")
	return &server{Program: program, client: loadtest.NewClient(program.Public, 0), journal: journal}, err
}

// create makes one link.
func (s *server) create(ctx context.Context) (loadtest.Outcome, error) {
	entry, err := s.journal.Intend()
	if err != nil {
		return loadtest.Outcome{}, err
	}
	outcome := s.client.Create(ctx, entry.URL)
	return outcome, s.journal.Settle(entry.N, outcome)
}

// take has so many takers make links at once, each its next one as soon as it has the last,
// and fails when one is not acknowledged.
func (s *server) take(ctx context.Context, takers, each int) error {
	var g errgroup.Group
	for range takers {
		g.Go(func() error {
			for range each {
				outcome, err := s.create(ctx)
				if err != nil {
					return err
				}
				if outcome.State != loadtest.Acknowledged {
					return fmt.Errorf("a creation among %d at once was %s: %s", takers, outcome.State, outcome.Detail)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// load is creations at a steady rate, until it is ended.
type load struct {
	recorder *loadtest.Recorder
	cancel   context.CancelFunc
	done     chan error
}

func (s *server) begin(ctx context.Context) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{recorder: loadtest.NewRecorder(), cancel: cancel, done: make(chan error, 1)}
	go func() {
		l.done <- loadtest.NewLoad(s.client, s.journal, 0).Run(ctx, loadtest.Schedule{Rate: rate}, l.recorder)
	}()
	return l
}

// more waits until n more links were made.
func (l *load) more(ctx context.Context, n int64) error {
	return l.until(ctx, n, func(loadtest.Figures) error { return nil })
}

// unharmed is more, but fails as soon as a creation does.
func (l *load) unharmed(ctx context.Context, n int64) error {
	return l.until(ctx, n, func(now loadtest.Figures) error {
		if now.Failed() > 0 {
			return fmt.Errorf("creations failed: %+v", now)
		}
		return nil
	})
}

// until waits until n more links were made, or the figures are wrong.
func (l *load) until(ctx context.Context, n int64, wrong func(loadtest.Figures) error) error {
	enough := l.recorder.Figures().Acknowledged + n
	return testbed.Until(ctx, look, patience, func(context.Context) (done bool, err error) {
		now := l.recorder.Figures()
		if err := wrong(now); err != nil || now.Acknowledged >= enough {
			return true, err
		}
		return false, fmt.Errorf("creations do not go on: %d of %d were made; %+v", n-(enough-now.Acknowledged), n, now)
	})
}

// end ends the load when its last request has its answer.
func (l *load) end() (loadtest.Figures, error) {
	l.cancel()
	err := <-l.done
	return l.recorder.Figures(), err
}
