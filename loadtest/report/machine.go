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

// unknown is what stands for a part of the machine that the system does not tell. A run
// is not given up for the lack of it.
const unknown = "unknown"

// ThisMachine describes the machine that the program runs on; Servers is left to those
// who start them. What the system does not tell is "unknown", or 0 for the memory. It
// reads a few files of the system and blocks no longer than ctx.
func ThisMachine(ctx context.Context) Machine {
	return Machine{
		OS:     system(ctx),
		CPU:    processor(ctx),
		Cores:  runtime.NumCPU(),
		MemGiB: memory(ctx),
		Go:     runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
	}
}

func system(ctx context.Context) string {
	var parts []string
	if name, _, version, err := host.PlatformInformationWithContext(ctx); err == nil && name != "" {
		parts = append(parts, strings.TrimSpace(capital(name)+" "+version))
	}
	if kernel, err := host.KernelVersionWithContext(ctx); err == nil && kernel != "" {
		parts = append(parts, capital(runtime.GOOS)+" "+kernel)
	}
	return cmp.Or(strings.Join(parts, ", "), unknown)
}

func processor(ctx context.Context) string {
	all, err := cpu.InfoWithContext(ctx)
	if err != nil || len(all) == 0 {
		return unknown
	}
	return cmp.Or(strings.Join(strings.Fields(all[0].ModelName), " "), unknown)
}

func memory(ctx context.Context) int {
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return 0
	}
	return int(math.Round(float64(m.Total) / (1 << 30)))
}

func capital(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// String is the machine in a line.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %d GiB, %s, %s", m.Cores, m.CPU, m.MemGiB, m.OS, m.Go)
}
