package server

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how much of the work of a command is done. On a terminal it is a bar, and elsewhere it is one line
// every progressInterval. Only the method print returns errors of the writer. The methods of progress must not be
// called concurrently.
type progress struct {
	out   io.Writer
	total int64
	bar   *progressbar.ProgressBar // nil if out is not a terminal
	last  time.Time                // time of the last line
}

// newProgress returns the progress of a command. The parameter total is the number of steps, or 0 if this number is
// unknown.
func newProgress(out io.Writer, total int64) *progress {
	p := &progress{out: out, total: total, last: time.Now()}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if total == 0 {
			total = -1 // a bar without an end
		}
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(out), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionFullWidth(),
			progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(total > 0), progressbar.OptionClearOnFinish(),
		)
	}
	return p
}

// show displays the number of completed steps. It ignores errors of the output, because the work continues without a
// display.
func (p *progress) show(done int64, text string) {
	if p.bar != nil {
		p.bar.Describe(text)
		_ = p.bar.Set64(done)
		return
	}
	if time.Since(p.last) < progressInterval {
		return
	}
	p.last = time.Now()
	if p.total > 0 {
		text = fmt.Sprintf("%d %%: %s", 100*done/p.total, text)
	}
	_, _ = fmt.Fprintln(p.out, text)
}

// print prints a line above the bar.
func (p *progress) print(line string) error {
	if p.bar != nil {
		_ = p.bar.Clear() // the next write to the same output reports the error
	}
	_, err := fmt.Fprintln(p.out, line)
	return err
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
