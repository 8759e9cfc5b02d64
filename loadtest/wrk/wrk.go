// Package wrk loads a server with wrk, a load generator that is no part of the project: a
// closed loop, in which each client waits for its answer before it asks again.
//
// Invariant: a run with an answer that is known to be wrong is an error, not a figure; only
// refusals may be counted instead. wrk sees a status of 400 or above, a broken connection,
// and a time-out; it cannot tell a 302 from a 200. Whoever loads a server sees to that: by an
// [Exchange] before the load, or by counting what it left behind.
package wrk

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"keypool/internal/testenv/machine"
)

// Connections is how many clients wrk plays, each on a connection that stays open.
const Connections = 64

// grace is how much longer than told wrk may take.
const grace = 20 * time.Second

//go:embed lua
var scripts embed.FS

// Load is one way to load a server.
type Load struct {
	URL      string
	Script   string // its name in lua, without .lua
	Args     []string
	Duration time.Duration // in whole seconds
	Refusals bool          // an answer of 400 or above is counted, and no error
}

// Run loads the server and blocks for the Duration. The error wraps [exec.ErrNotFound]
// where wrk is not installed.
func (l Load) Run(ctx context.Context) (_ Tally, err error) {
	program, err := machine.LookPath("wrk")
	if err != nil {
		return Tally{}, err
	}
	script, err := l.script()
	if err != nil {
		return Tally{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(script)) }()
	ctx, cancel := context.WithTimeout(ctx, l.Duration+grace)
	defer cancel()
	args := []string{
		"-t1", "-c" + strconv.Itoa(Connections), "-d" + strconv.Itoa(int(l.Duration.Seconds())) + "s",
		"-s", script, l.URL, "--",
	}
	cmd := exec.CommandContext(ctx, program, append(args, l.Args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Tally{}, fmt.Errorf("wrk: %w; it said:\n%s", err, out)
	}
	return parseTally(out, l.Refusals)
}

// script writes the script for wrk, together with what all of them end with.
func (l Load) script() (path string, err error) {
	own, err := scripts.ReadFile("lua/" + l.Script + ".lua")
	if err != nil {
		return "", err
	}
	report, err := scripts.ReadFile("lua/report.lua")
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "keypool-*.lua")
	if err != nil {
		return "", err
	}
	_, err = file.Write(append(own, report...))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// Tally is what our scripts let wrk write at the end.
type Tally struct {
	Requests int64 `json:"requests"` // answers
	Micros   int64 `json:"micros"`

	Connect int64 `json:"connect"`
	Read    int64 `json:"read"`
	Write   int64 `json:"write"`
	Timeout int64 `json:"timeout"`
	Status  int64 `json:"status"` // of 400 and above
}

// PerSecond is how many answers a second there were.
func (t Tally) PerSecond() float64 { return float64(t.Requests) / float64(t.Micros) * 1e6 }

// parseTally finds the tally in the last line of what wrk wrote; one with failures in it, or
// of nothing, is an error. Refusals are no failures where they may be.
func parseTally(out []byte, refusals bool) (Tally, error) {
	out = bytes.TrimSpace(out)
	last := out[bytes.LastIndexByte(out, '\n')+1:]
	var t Tally
	if err := json.Unmarshal(last, &t); err != nil {
		return Tally{}, fmt.Errorf("wrk wrote no tally: %w; it said:\n%s", err, out)
	}
	if t.Requests <= 0 || t.Micros <= 0 {
		return Tally{}, errors.New("wrk got no answers")
	}
	failures := t.Connect + t.Read + t.Write + t.Timeout
	if !refusals {
		failures += t.Status
	}
	if failures > 0 {
		return Tally{}, fmt.Errorf("%d of wrk's requests failed: %+v", failures, t)
	}
	return t, nil
}
