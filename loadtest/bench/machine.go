package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// ThisMachine says in a line what a bench runs on. What the system does not tell is left
// out.
func ThisMachine() string {
	parts := []string{
		fmt.Sprintf("%d cores of %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name", ":")),
		field("/etc/os-release", "PRETTY_NAME", "="),
		"Linux " + strings.TrimSpace(read("/proc/sys/kernel/osrelease")),
		runtime.Version(),
	}
	return strings.Join(parts, ", ") + ", load generator and server on the same cores"
}

// field is the value of the first line "NAME SEPARATOR VALUE" in a file.
func field(path, name, separator string) string {
	for line := range strings.Lines(read(path)) {
		key, value, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(key) == name {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return "unknown"
}

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return string(text)
}
