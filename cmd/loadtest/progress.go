package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"keypool/loadtest/experiment"
)

// linePeriod is the least time between two lines about the same phase of an experiment.
const linePeriod = 5 * time.Second

// progress prints the progress of a run, one line for each step. Its methods may be called concurrently.
type progress struct {
	w       io.Writer
	started time.Time

	mu  sync.Mutex
	due map[string]time.Time // the time of the next line, by experiment and phase
}

// line writes a line. It ignores an error: p.w is a writer of the type required, which ends the run if a write fails.
func (p *progress) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.w, "%4.0fs  %s\n", time.Since(p.started).Seconds(), text)
}

func (p *progress) live(now experiment.Live) {
	if p.isDue(now.Experiment + " " + now.Phase) {
		p.line(strings.TrimSpace(fmt.Sprintf("%-14s  %3.0f %%  %s  %s", now.Experiment, 100*now.Done, now.Phase, now.Detail)))
	}
}

func (p *progress) isDue(phase string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.due[phase]) {
		return false
	}
	p.due[phase] = time.Now().Add(linePeriod)
	return true
}
