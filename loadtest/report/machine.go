package report

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
)

// unknown stands for what the system does not report. It does not stop a run.
const unknown = "unknown"

// ThisMachine describes the machine that the program runs on, except for Servers. It reads a
// few files of the system and blocks no longer than ctx.
func ThisMachine(ctx context.Context) Machine {
	m := Machine{OS: unknown, CPU: unknown, Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}
	if h, err := host.InfoWithContext(ctx); err == nil {
		m.OS = fmt.Sprintf("%s %s, %s %s", capital(h.Platform), h.PlatformVersion, capital(h.OS), h.KernelVersion)
	}
	if all, err := cpu.InfoWithContext(ctx); err == nil && len(all) > 0 {
		m.CPU = cmp.Or(strings.Join(strings.Fields(all[0].ModelName), " "), unknown)
	}
	if v, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		m.MemGiB = int(math.Round(float64(v.Total) / (1 << 30)))
	}
	return m
}

// String is the machine in one line, without its servers.
func (m Machine) String() string {
	return fmt.Sprintf("%s of %s, %d GiB, %s, %s", count(m.Cores, "core"), m.CPU, m.MemGiB, m.OS, m.Go)
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
