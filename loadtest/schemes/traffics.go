package schemes

import (
	"context"
	"fmt"

	"keypool/loadtest"
	"keypool/loadtest/scenario"
)

// traffics are the links of each scheme that runs, and the accounts of them.
type traffics map[*running]*scenario.Traffic

func newTraffics(runs []*running) (traffics, error) {
	all := make(traffics)
	for _, r := range runs {
		t, err := scenario.NewTraffic(r.server.Public, loadtest.NewRecorder())
		if err != nil {
			all.close()
			return nil, err
		}
		all[r] = t
	}
	return all, nil
}

// close closes the connections that are idle.
func (all traffics) close() {
	for _, t := range all {
		t.Close()
	}
}

// read reads back all links of those runs, each of which knows the databases of no other,
// and adds up what it finds. The servers are started anew before, in order: for a moment a
// server answers for the links that it made from memory, and nobody would miss them.
func (e *experiment) read(ctx context.Context, runs []*running, all traffics) {
	e.enter("reading the links back")
	for _, r := range beside(ctx, e, runs, called, forget) {
		v, err := all[r].Judge(ctx)
		if err != nil && ctx.Err() == nil {
			e.fail(r.name, err)
		}
		e.links.Sent += v.Sent
		e.links.Unsent += v.Unsent
		e.links.Acknowledged += v.Acknowledged
		e.links.Checked += v.Checked
		e.links.Lost += v.Lost
		e.links.Wrong += v.Wrong
		e.links.Twice += v.Twice
		e.links.Unread += v.Unread
		e.links.Reports = append(e.links.Reports, v.Reports...)
	}
}

func forget(ctx context.Context, r *running) error {
	if err := r.server.Restart(ctx); err != nil {
		return fmt.Errorf("restart it before its links are read back: %w", err)
	}
	return nil
}
