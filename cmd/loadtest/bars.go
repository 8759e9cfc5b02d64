package main

import (
	"fmt"
	"sync"
	"time"

	"keypool/loadtest/report"
	"keypool/loadtest/scenario"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

const (
	barWidth = 24   // characters
	barFull  = 1000 // so many steps make a whole bar
)

// bars is the view on a terminal: a bar for each scenario.
type bars struct {
	output
	progress *mpb.Progress
	bars     map[string]*bar
}

type bar struct {
	*mpb.Bar

	mu   sync.Mutex
	text string // beside the bar
}

func newBars(out output, scenarios []scenario.Scenario) *bars {
	v := &bars{
		output: out, bars: make(map[string]*bar),
		progress: mpb.New(mpb.WithOutput(out.stderr), mpb.WithAutoRefresh(), mpb.WithRefreshRate(time.Second/4)),
	}
	for _, s := range scenarios {
		b := &bar{text: s.Title}
		b.Bar = v.progress.New(barFull, mpb.BarStyle(), mpb.BarWidth(barWidth),
			mpb.PrependDecorators(decor.Name(s.Name, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + b.says() })))
		v.bars[s.Name] = b
	}
	return v
}

func (b *bar) says() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text
}

func (b *bar) say(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = text
}

func (v *bars) live(now scenario.Live) {
	if b := v.bars[now.Scenario]; b != nil {
		b.say(now.Phase + details(now, " · "))
		b.SetCurrent(int64(barFull * now.Done))
	}
}

func (v *bars) done(s *report.Scenario) {
	if b := v.bars[s.Name]; b != nil {
		b.say(fmt.Sprintf("%s (%.0f s)", tally(s), s.Seconds))
		b.SetCurrent(barFull)
	}
}

// close leaves the bars as they are.
func (v *bars) close() {
	for _, b := range v.bars {
		b.Abort(false) // nothing happens to one that is full
	}
	v.progress.Wait()
}

func (v *bars) verdict(r *report.Report, page string) error { return writeVerdict(v.stdout, r, page) }
