package loadtest

import (
	"fmt"
	"io"
	"strings"
)

// Verdict is what a run comes to: what was answered, and what the answers were worth.
type Verdict struct {
	Figures
	Findings
}

// Right says that every request got its link and every link is what was promised: of no
// links it is false. More links may have been read back than the figures are of.
func (v Verdict) Right() bool {
	return v.Acknowledged > 0 && v.Checked >= v.Acknowledged && v.Failed() == 0 && v.Broken() == 0
}

// WriteText writes the verdict for people, a figure a line.
func (v Verdict) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name string, n int64) { fmt.Fprintf(&b, "%-14s%d\n", name, n) }
	line("sent", v.Sent)
	line("acknowledged", v.Acknowledged)
	line("refused", v.Refused)
	line("unknown", v.Unknown)
	line("unsent", v.Unsent)
	if v.Latency != (Latency{}) {
		fmt.Fprintf(&b, "%-14s%v\n", "latency", v.Latency)
	}
	line("read back", v.Checked)
	line("lost", v.Lost)
	line("wrong", v.Wrong)
	line("twice", v.Twice)
	line("unread", v.Unread)
	for _, report := range v.Reports {
		b.WriteString("  " + report + "\n")
	}
	switch {
	case v.Right():
		b.WriteString("all right\n")
	case v.Failed()+v.Broken() == 0:
		fmt.Fprintf(&b, "NOT RIGHT: of %d links that were acknowledged, %d were read back\n", v.Acknowledged, v.Checked)
	default:
		fmt.Fprintf(&b, "NOT RIGHT: %d creations failed, %d findings against links\n", v.Failed(), v.Broken())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
