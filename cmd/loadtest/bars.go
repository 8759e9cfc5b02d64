package main

import (
	"sync"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/report"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

const (
	barWidth = 24   // characters
	barFull  = 1000 // steps of a whole bar
	maxBars  = 20   // experiments; more do not fit on a screen
)

// bars is the view on a terminal: one progress bar per experiment.
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

func newBars(out output, all []*experiment.Experiment) *bars {
	v := &bars{
		output: out, bars: make(map[string]*bar),
		progress: mpb.New(mpb.WithOutput(out.stderr), mpb.WithAutoRefresh(), mpb.WithRefreshRate(time.Second/4)),
	}
	for _, e := range all {
		b := &bar{text: e.Title}
		b.Bar = v.progress.New(barFull, mpb.BarStyle(), mpb.BarWidth(barWidth),
			mpb.PrependDecorators(decor.Name(e.Name, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + b.show("") })))
		v.bars[e.Name] = b
	}
	return v
}

// show sets the text beside the bar, unless it is empty, and returns it.
func (b *bar) show(text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text != "" {
		b.text = text
	}
	return b.text
}

func (*bars) log(string) {} // the bars show the phases

func (v *bars) live(now experiment.Live) {
	if b := v.bars[now.Experiment]; b != nil {
		b.show(now.Phase + details(now, " · "))
		b.SetCurrent(int64(barFull * now.Done))
	}
}

func (v *bars) done(e *report.Experiment, strict bool) {
	if b := v.bars[e.Name]; b != nil {
		b.show(e.Line(strict))
		b.SetCurrent(barFull)
	}
}

// close leaves the bars as they are.
func (v *bars) close() {
	for _, b := range v.bars {
		b.Abort(false) // has no effect on a full one
	}
	v.progress.Wait()
}

func (v *bars) verdict(r *report.Report, page string) error {
	return writeVerdict(v.stdout, r, page)
}
