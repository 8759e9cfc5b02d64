package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"keypool/loadtest/rounds"
)

// The benchmarks, each in the test program of its package, which `make bench` builds.
const (
	codesProgram  = "codespace.test"
	sourceProgram = "kgs.test"

	benchCodes   = "BenchmarkSpaceCodes/AES-128/length=6"
	benchHandOut = "BenchmarkSourceNext"
	benchWait    = "BenchmarkSourceNextTimed"
)

// partTimeout bounds one run of one benchmark.
const partTimeout = time.Minute

// keys measures the parts that make and hand out keys. They are functions, and a Go
// benchmark on one core is what measures them best.
func keys(ctx context.Context, r *run) ([]Bar, error) {
	figures, err := r.keyFigures(ctx)
	codes := figures[benchCodes]
	return []Bar{
		{What: "FF1 and base 62 in bulk, one core", Unit: rounds.PerSecond, Measured: codes["keys/s"], Aim: AtLeast(4e6)},
		{What: "FF1 and base 62, allocations", Unit: "a key", Measured: perKey(codes), Aim: AtMost(0.001),
			Note: "what is allocated is the slices of a whole chunk"},
		{What: "local hand-out, one core", Unit: rounds.PerSecond, Measured: figures[benchHandOut]["keys/s"], Aim: AtLeast(20e6)},
		{What: "local hand-out, p99", Unit: "ns", Measured: figures[benchWait]["p99-ns"], Aim: AtMost(1000),
			Note: "with the two looks at the clock that measure it"},
	}, err
}

// keyFigures is what each benchmark came to, by its units, all of those that bars are made of;
// one that failed in any round has none.
func (r *run) keyFigures(ctx context.Context) (map[string]map[string]rounds.Series, error) {
	figures := map[string]map[string]rounds.Series{benchCodes: {}, benchHandOut: {}, benchWait: {}}
	units := map[string][]string{
		benchCodes:   {"keys/s", "ns/op", "allocs/op"},
		benchHandOut: {"keys/s"},
		benchWait:    {"p99-ns"},
	}
	var errs []error
	for round := range r.Rounds {
		for _, name := range slices.Sorted(maps.Keys(figures)) {
			part, err := r.benchmark(ctx, name, units[name]...)
			if err != nil {
				delete(figures, name)
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				continue
			}
			r.Log(fmt.Sprintf("round %d of %d: %s: %v", round+1, r.Rounds, name, part))
			for unit, v := range part {
				figures[name][unit] = append(figures[name][unit], v)
			}
		}
	}
	return figures, errors.Join(errs...)
}

// perKey is allocations a key, when an operation is as many keys as are made in its time.
func perKey(codes map[string]rounds.Series) rounds.Series {
	var s rounds.Series
	for i := range codes["allocs/op"] {
		keys := codes["keys/s"][i] * codes["ns/op"][i] / 1e9
		s = append(s, codes["allocs/op"][i]/keys)
	}
	return s
}

// benchmark runs one benchmark on one core, and returns its figures by their units, which
// have to be among them.
func (r *run) benchmark(ctx context.Context, name string, units ...string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	var pattern []string
	for part := range strings.SplitSeq(name, "/") {
		pattern = append(pattern, "^"+part+"$")
	}
	program := sourceProgram
	if name == benchCodes {
		program = codesProgram
	}
	cmd := exec.CommandContext(ctx, r.program(program), "-test.run", "^$", "-test.bench", strings.Join(pattern, "/"),
		"-test.cpu", "1", "-test.benchtime", "1s")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w; it said:\n%s", err, out)
	}
	return parseBenchmark(string(out), name, units...)
}

// parseBenchmark finds the line "NAME N FIGURE UNIT FIGURE UNIT ..." in the output of a
// benchmark, with a figure in each of the units and maybe others.
func parseBenchmark(out, name string, units ...string) (map[string]float64, error) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || len(fields)%2 != 0 || fields[0] != name {
			continue
		}
		figures := make(map[string]float64)
		for i := 2; i < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			figures[fields[i+1]] = v
		}
		for _, unit := range units {
			if _, ok := figures[unit]; !ok {
				return nil, fmt.Errorf("%q: there is no figure in %s", line, unit)
			}
		}
		return figures, nil
	}
	return nil, errors.New("the benchmark gave no figures; it said:\n" + out)
}
