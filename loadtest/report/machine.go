package report

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
)

// ThisMachine describes the machine that the program runs on. It leaves the member Servers empty. It reads a few files
// of the system and blocks no longer than ctx. A text that the system does not report is "unknown".
func ThisMachine(ctx context.Context) Machine {
	m := Machine{OS: "unknown", CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}
	if h, err := host.InfoWithContext(ctx); err == nil {
		m.OS = fmt.Sprintf("%s %s, %s %s", h.Platform, h.PlatformVersion, h.OS, h.KernelVersion)
	}
	if all, err := cpu.InfoWithContext(ctx); err == nil && len(all) > 0 && all[0].ModelName != "" {
		m.CPU = strings.Join(strings.Fields(all[0].ModelName), " ")
	}
	if v, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		m.MemGiB = int(math.Round(float64(v.Total) / (1 << 30)))
	}
	return m
}

// String describes the machine in one line.
func (m Machine) String() string {
	s := fmt.Sprintf("%s of %s, %d GiB, %s, %s", count(m.Cores, "core"), m.CPU, m.MemGiB, m.OS, m.Go)
	if m.Servers != "" {
		s += ", " + m.Servers
	}
	return s
}
