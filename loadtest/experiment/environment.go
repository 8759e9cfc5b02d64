package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

	"keypool/internal/proc"
	"keypool/loadtest/report"
)

const (
	// foreignLimit is a share of all processor time. If foreign programs take more than this share, the machine is too
	// busy to judge claims that depend on time.
	foreignLimit = 0.2
	// writeLimit is the longest time of a small durable write on a disk that is fit for a measurement. If a write takes
	// longer, the disk is too busy to judge claims that depend on time, because a service refuses a creation whose commit
	// takes about a second.
	writeLimit = 500 * time.Millisecond
	// writeInterval is the interval at which writes begin. It is so long that the writes do not disturb a measurement, and
	// shorter than writeLimit.
	writeInterval = 250 * time.Millisecond
)

// disturbance is what can make a claim that depends on time fail although the programs under test are right.
type disturbance struct {
	foreign float64       // share of the processor time, from 0 to 1, that foreign programs took: programs that this process did not start
	write   time.Duration // the longest time of a small durable write
}

// observe begins to observe the processors, and the disk that has the temporary files. The function end ends the
// observation and returns the disturbance since the call of observe. A value that cannot be read is 0, so that the read
// error excuses no claim.
func observe() (end func() disturbance) {
	since, began := readProcessors()
	ctx, cancel := context.WithCancel(context.Background())
	longest := make(chan time.Duration, 1)
	go func() { longest <- longestWrite(ctx) }()
	return func() (d disturbance) {
		cancel()
		d.write = <-longest
		if now, err := readProcessors(); err == nil && began == nil {
			d.foreign = now.foreign(since)
		}
		return d
	}
}

// longestWrite writes to a temporary file and syncs it, at intervals, until ctx ends. It returns the longest time of a write.
func longestWrite(ctx context.Context) (longest time.Duration) {
	file, err := os.CreateTemp("", "keypool-write-")
	if err != nil {
		return 0
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }() // the file has no data of value
	tick := time.NewTicker(writeInterval)
	defer tick.Stop()
	for block := make([]byte, 4096); ; {
		began := time.Now()
		if _, err := file.WriteAt(block, 0); err == nil && file.Sync() == nil {
			longest = max(longest, time.Since(began))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return longest
		}
	}
}

// excuse makes failed claims that depend on time inconclusive if the disturbance was too large. It does not change a
// failure that is certain ([Verdict.Certain]).
func excuse(claims []report.Claim, certain []bool, d disturbance) {
	var why string
	switch {
	case d.foreign > foreignLimit:
		why = fmt.Sprintf("foreign programs took %.0f %% of the processor time, which is more than %.0f %%", 100*d.foreign, 100*foreignLimit)
	case d.write > writeLimit:
		why = fmt.Sprintf("a small write to the disk took %v, which is more than %v", d.write.Round(time.Millisecond), writeLimit)
	default:
		return
	}
	for i := range claims {
		if c := &claims[i]; c.Outcome == report.Failed && c.Timed() && !certain[i] {
			c.Outcome = report.Inconclusive
			c.Why += "; " + why
		}
	}
}

// processors contains the processor time of this machine since its start, in seconds.
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
