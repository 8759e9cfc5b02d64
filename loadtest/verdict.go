package loadtest

import (
	"fmt"
	"io"
	"strings"
)

// Verdict is the result of a run: how requests were answered, and what was found when their
// links were read back.
type Verdict struct {
	Figures
	Findings
}

// Passed reports whether every request was acknowledged and every link is as promised. Without
// any link it is false. The findings may cover more links than the figures.
func (v Verdict) Passed() bool {
	return v.Acknowledged > 0 && v.Checked >= v.Acknowledged && v.Failed() == 0 && v.Broken() == 0
}

// WriteText writes the verdict for people, one figure a line.
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
	case v.Passed():
		b.WriteString("PASS: every creation was acknowledged, and every link leads where it should\n")
	case v.Failed()+v.Broken() == 0:
		fmt.Fprintf(&b, "FAIL: %d links were acknowledged, and %d of them were read back\n", v.Acknowledged, v.Checked)
	default:
		fmt.Fprintf(&b, "FAIL: %d creations failed, and %d links are not as promised\n", v.Failed(), v.Broken())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
