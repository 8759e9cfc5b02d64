package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// maxExposure is the highest exposure level of a unit that the test accepts. `systemd-analyze security`
// gives a fully sandboxed unit the level 0, and a unit without a sandbox the level 10.
const maxExposure = 2.0

// The test runs systemd-analyze, which needs no running systemd.
func TestSystemdUnitsAreValidAndSandboxed(t *testing.T) {
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("the units are %q, %v; want two", units, err)
	}
	for _, unit := range units {
		t.Run(filepath.Base(unit), func(t *testing.T) {
			analyze(t, "verify", withInstalledProgram(t, unit))
			report := analyze(t, "security", "--offline=true", unit)
			if level := exposure(t, report); level > maxExposure {
				t.Errorf("the exposure level is %.1f, want at most %.1f:\n%s", level, maxExposure, report)
			}
		})
	}
}

// withInstalledProgram returns a copy of the unit that starts the test binary, because verify requires
// that the program exists.
func withInstalledProgram(t *testing.T, unit string) string {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), "\nExecStart=/usr/local/bin/")
	_, rest, ends := strings.Cut(after, "\n")
	if !found || !ends {
		t.Fatalf("%s starts no program in /usr/local/bin", unit)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(unit))
	if err := os.WriteFile(path, []byte(before+"\nExecStart="+program+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// analyze runs systemd-analyze and returns its output. A warning also fails the test, because
// systemd-analyze only warns of directives that it does not know, and exits with status 0.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", args...)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil || errors.Len() > 0 {
		t.Fatalf("systemd-analyze %s: %v\n%s\nThe program is in the Debian package systemd.", strings.Join(args, " "), err, errors.String())
	}
	return string(out)
}

// exposure returns the level in the last line of the report: "→ Overall exposure level for
// keypool-kgs.service: 1.2 OK".
func exposure(t *testing.T, report string) float64 {
	t.Helper()
	_, after, found := strings.Cut(report, "Overall exposure level for ")
	fields := strings.Fields(after)
	if !found || len(fields) < 2 {
		t.Fatalf("the report has no exposure level:\n%s", report)
	}
	level, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return level
}
