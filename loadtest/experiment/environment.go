package experiment

import (
	"context"
	"fmt"
	"os"

	"github.com/shirou/gopsutil/v4/cpu"

	"keypool/internal/proc"
	"keypool/loadtest/report"
)

// foreignLimit is a share of all processor time. If foreign programs take more than this share, the
// machine is too busy to judge claims that depend on time.
const foreignLimit = 0.2

// observe begins to observe the processors. The function foreign returns the share of processor time,
// from 0 to 1, that foreign programs took since the call of observe. Foreign programs are programs that
// this process did not start. If the share cannot be read, foreign returns 0, so that the error excuses
// no claim.
func observe() (foreign func() float64) {
	since, began := readProcessors()
	return func() float64 {
		now, err := readProcessors()
		if err != nil || began != nil {
			return 0
		}
		return now.foreign(since)
	}
}

// If foreign programs took too large a share of the processor time, excuse changes the outcome of
// failed claims that depend on time to inconclusive. It does not change a failure that is certain
// ([Verdict.Certain]).
func excuse(claims []report.Claim, certain []bool, foreign float64) {
	if foreign <= foreignLimit {
		return
	}
	for i := range claims {
		if c := &claims[i]; c.Outcome == report.Failed && c.Timed() && !certain[i] {
			c.Outcome = report.Inconclusive
			c.Why += fmt.Sprintf("; foreign programs took %.0f %% of the processor time, which is more than %.0f %%", 100*foreign, 100*foreignLimit)
		}
	}
}

// processors contains the times that the processors of this machine have counted, in seconds.
type processors struct {
	all  float64 // busy and idle time
	busy float64 // includes the time that other virtual machines took
	ours float64 // the part of busy that this process and its descendants took
}

// readProcessors reads the times from /proc: one file of the system, and one file of each process.
func readProcessors() (processors, error) {
	times, err := cpu.TimesWithContext(context.Background(), false) // the call only reads one file
	if err != nil || len(times) == 0 {
		return processors{}, fmt.Errorf("read the times of the processors: %w", err)
	}
	t := &times[0]
	p := processors{busy: t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal}
	p.all = p.busy + t.Idle + t.Iowait
	stats, err := proc.Processes()
	if err != nil {
		return processors{}, err
	}
	// The time of descendants that have ended is included, so that it does not count as foreign.
	p.ours = (proc.Family(stats, os.Getpid()) + proc.Orphaned()).Seconds()
	return p, nil
}

// foreign returns the share of the processor time that foreign programs took between the observations earlier and p.
func (p processors) foreign(earlier processors) float64 {
	all := p.all - earlier.all
	if all <= 0 {
		return 0
	}
	foreign := (p.busy - earlier.busy) - (p.ours - earlier.ours)
	return min(max(0, foreign/all), 1) // the processor times are not exact, so the quotient may be outside 0 to 1
}
