package experiment

import (
	"context"
	"fmt"
	"os"

	"keypool/loadtest/report"

	"github.com/prometheus/procfs"
	"github.com/shirou/gopsutil/v4/cpu"
)

// foreignLimit is the share of all processor time above which foreign programs make an
// environment unfit. The processor time of the service itself is not foreign when this process
// started the service, and only then can the two be told apart.
const foreignLimit = 0.2

// observe begins to observe the environment. It returns a function that returns the share of the
// processor time since, 0 to 1, that programs took which this process did not start. The share is 0
// when the system does not answer: what is unknown excuses no claim.
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

// excuse makes failed claims that depend on time inconclusive when foreign programs took too
// large a share of the processors.
func excuse(claims []report.Claim, foreign float64) {
	if foreign <= foreignLimit {
		return
	}
	for i := range claims {
		if c := &claims[i]; c.Outcome == report.Failed && c.Timed() {
			c.Outcome = report.Inconclusive
			c.Why += fmt.Sprintf("; foreign programs took %.0f %% of the processors meanwhile, more than %.0f %%", 100*foreign, 100*foreignLimit)
		}
	}
}

// processors is what the processors of this machine did until a moment, in seconds.
type processors struct {
	all  float64 // busy and idle
	busy float64 // also for other machines on the same hardware
	ours float64 // part of busy: this process and its descendants
}

// readProcessors reads a few files of the system, and one for each process.
func readProcessors() (processors, error) {
	times, err := cpu.TimesWithContext(context.Background(), false) // it reads one file
	if err != nil || len(times) == 0 {
		return processors{}, fmt.Errorf("read the times of the processors: %w", err)
	}
	t := &times[0]
	p := processors{busy: t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal}
	p.all = p.busy + t.Idle + t.Iowait
	all, err := procfs.AllProcs()
	if err != nil {
		return processors{}, fmt.Errorf("read the times of the processes: %w", err)
	}
	var stats []procfs.ProcStat
	for _, proc := range all {
		if stat, err := proc.Stat(); err == nil { // else it has ended
			stats = append(stats, stat)
		}
	}
	p.ours = family(stats, os.Getpid())
	return p, nil
}

// userHZ is how many ticks per second the Linux kernel counts for programs (proc(5)).
const userHZ = 100

// family is the processor time of a process and its descendants, in seconds. It includes ended
// children that their parent has waited for: otherwise their time would count as foreign once
// they end. A process that outlives its parent is no longer of the family.
func family(stats []procfs.ProcStat, root int) (seconds float64) {
	for i := range stats {
		s := &stats[i]
		if s.PID == root {
			seconds += float64(int(s.UTime)+int(s.STime)+s.CUTime+s.CSTime) / userHZ
		}
		if s.PPID == root {
			seconds += family(stats, s.PID)
		}
	}
	return seconds
}

// foreign is the share of the processor time since then that foreign programs took.
func (p processors) foreign(since processors) float64 {
	all := p.all - since.all
	if all <= 0 {
		return 0
	}
	return max(0, (p.busy-since.busy)-(p.ours-since.ours)) / all
}
