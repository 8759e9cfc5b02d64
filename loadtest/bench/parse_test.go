package bench

import (
	"os"
	"strings"
	"testing"

	"keypool/loadtest/rounds"
)

func TestParseBenchmark(t *testing.T) {
	t.Parallel()
	const out = `goos: linux
pkg: keypool/kgs
BenchmarkSpaceCodes/AES-128/length=6         	     675	   1508758 ns/op	   6627970 keys/s	  294929 B/op	       3 allocs/op
BenchmarkSpaceCodes/AES-128/length=60        	       1	         1 ns/op
PASS
`
	got, err := parseBenchmark(out, benchCodes, "keys/s", "allocs/op")
	if err != nil || got["keys/s"] != 6627970 || got["allocs/op"] != 3 || len(got) != 4 {
		t.Errorf("%v, %v", got, err)
	}
	allocations := perKey(map[string]rounds.Series{"keys/s": {got["keys/s"]}, "ns/op": {got["ns/op"]}, "allocs/op": {got["allocs/op"]}})
	if a := allocations[0]; a < 0.000299 || a > 0.000301 {
		t.Errorf("%v allocations a key, want 3 for 10,000", a)
	}
	for name, out := range map[string]string{
		"nothing":   "PASS\n",
		"another":   "BenchmarkSourceNext 100 5 ns/op\n",
		"no figure": benchCodes + " 100 five ns/op\n",
		"no unit":   benchCodes + " 100 5\n",
		"others":    benchCodes + " 100 5 keys/s 6 B/op\n",
	} {
		if got, err := parseBenchmark(out, benchCodes, "ns/op"); err == nil {
			t.Errorf("%s: %v and no error", name, got)
		}
	}
}

// A unit that a benchmark no longer reports is an error, and not a bar less. It is not parallel:
// the process of another test, forked in between, would keep the script from being run.
func TestKeysWantEveryUnit(t *testing.T) {
	for _, unit := range []string{"", "keys/s", "ns/op", "allocs/op", "p99-ns"} {
		line := " 1000"
		for _, other := range []string{"keys/s", "ns/op", "allocs/op", "p99-ns"} {
			if other != unit {
				line += " 50 " + other
			}
		}
		script := "#!/bin/sh\n"
		for _, name := range []string{benchCodes, benchHandOut, benchWait} {
			script += "echo '" + name + line + "'\n"
		}
		r := testRun(t, t.TempDir())
		r.Rounds = 2
		for _, program := range []string{codesProgram, sourceProgram} {
			if err := os.WriteFile(r.program(program), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		bars, err := finished(keys(t.Context(), r))
		if (err == nil) != (unit == "") || (len(bars) == 4) != (unit == "") {
			t.Errorf("without %q: %d bars, %v", unit, len(bars), err)
		}
		if err != nil && !strings.Contains(err.Error(), "no figure in "+unit) {
			t.Errorf("without %q: %v", unit, err)
		}
	}
}

func TestResident(t *testing.T) {
	t.Parallel()
	const status = "Name:\tkgs\nVmHWM:\t   33792 kB\nVmRSS:\t   20480 kB\nThreads:\t9\n"
	if got, err := bytesOf(status, "VmHWM:"); err != nil || got != 33*mebi {
		t.Errorf("%v, %v; want 33 MiB", got, err)
	}
	if got, err := bytesOf(status, "VmPeak:"); err == nil {
		t.Errorf("%v of what is not told", got)
	}
	own, err := residentOf(os.Getpid())
	if err != nil || own.now < mebi || own.most < own.now {
		t.Errorf("this process has %+v, %v", own, err)
	}
}

func TestRunRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	log := func(string) {}
	for name, o := range map[string]Options{
		"group":  {Only: []string{"redirekt"}, Rounds: 1, Each: 1e9, Log: log},
		"rounds": {Only: []string{"redirect"}, Each: 1e9, Log: log},
		"part":   {Only: []string{"redirect"}, Rounds: 1, Each: 2.5e9, Log: log, Programs: t.TempDir()},
		"time":   {Only: []string{"redirect"}, Rounds: 1, Log: log},
		"nobody": {Only: []string{"redirect"}, Rounds: 1, Each: 1e9, Log: log, Programs: t.TempDir()},
	} {
		bars, err := Run(t.Context(), o)
		if err == nil {
			t.Errorf("%s: %v and no error", name, bars)
		}
		if name == "part" && !strings.Contains(err.Error(), "whole seconds") {
			t.Errorf("a part of a second: %v", err)
		}
	}
}
