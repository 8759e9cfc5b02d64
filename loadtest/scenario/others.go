package scenario

import (
	"context"
	"fmt"
	"os"

	"keypool/loadtest/report"

	"github.com/prometheus/procfs"
	"github.com/shirou/gopsutil/v4/cpu"
)

// hogged is the share of all processor time from which on a machine is too busy with other
// programs for a claim about time to fail by it. What a service wastes itself is not among it
// where this process started the service, and only there can it be told from the rest.
const hogged = 0.2

// Excuse takes back that a claim about time failed where other programs took that share of
// the processors meanwhile: it may be their doing. It is not for a deployment that was there
// already, which would be one of the others.
func (p *Part) Excuse(name string, others float64) {
	if c := p.find(name); c.Verdict == report.Failed && others > hogged {
		p.CannotJudge(name, "%s; but other programs took %.0f %% of the processors meanwhile", c.Why, 100*others)
	}
}

// Besides runs load and returns the share of the processors that other programs took meanwhile.
func Besides(ctx context.Context, load func() error) (others float64, err error) {
	ctx = context.WithoutCancel(ctx)
	before, err := readProcessors(ctx)
	if err != nil {
		return 0, err
	}
	if err := load(); err != nil {
		return 0, err
	}
	after, err := readProcessors(ctx)
	return after.others(before), err
}

// processors is what the processors of this machine did until a moment, in seconds.
type processors struct {
	all  float64 // whether they worked or not
	busy float64 // also for other machines on the same processors
	ours float64 // of it, this process and what it started
}

// readProcessors reads a few files of the system, and one of each process.
func readProcessors(ctx context.Context) (processors, error) {
	times, err := cpu.TimesWithContext(ctx, false)
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

// userHZ is how many of its ticks the kernel of Linux counts a second, for programs.
const userHZ = 100

// family is the processor time of a process and all that are below it, in seconds. It counts
// what children took that have ended, from when their parent has waited for them: so what one
// took while it ran is not taken back when it ends, as if others had taken it. A process that
// outlives its parent is no longer of the family.
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

// others is the share of the processor time since then that other programs took, 0 to 1.
func (p processors) others(since processors) float64 {
	all := p.all - since.all
	if all <= 0 {
		return 0
	}
	return max(0, (p.busy-since.busy)-(p.ours-since.ours)) / all
}
